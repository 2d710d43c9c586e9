/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache_internal.h - what the files of the cache share and nobody else sees.
 */
#ifndef SPC_CACHE_INTERNAL_H
#define SPC_CACHE_INTERNAL_H

#include "base/buf.h"
#include "cache/cache.h"
#include "cache/lookup/kd_tree.h"
#include <sqlite3.h>
#include <stdbool.h>

enum {
    SPC__APPLICATION_ID = 0x53504354, /* "SPCT" */
    SPC__SCHEMA_VERSION = 4,
    SPC__SEALED_VERSION = 3, /* from which on records have seals */
    SPC__BUSY_MS = 5000
};

/* Statements kept prepared; statement.c has their text. */
typedef enum spc__sql {
    SPC__SQL_BEGIN,
    SPC__SQL_COMMIT,
    SPC__SQL_FIND_PROBLEM,
    SPC__SQL_ADD_PROBLEM,
    SPC__SQL_FIND_PROVENANCE,
    SPC__SQL_ADD_PROVENANCE,
    SPC__SQL_GET_PROVENANCE,
    SPC__SQL_PUT_TRIAL,
    SPC__SQL_FIND_TRIAL,
    SPC__SQL_ALL_TRIALS,
    SPC__SQL_PUT_CHOICE,
    SPC__SQL_EXACT_CHOICE,
    SPC__SQL_SIMILAR_CHOICES,
    SPC__SQL_DATA_VERSION,
    SPC__SQL_CHOICE_OF,
    SPC__SQL_CHOICE_ROWS,
    SPC__SQL_IS_CHOSEN,
    SPC__SQL_CHOICE_AT,
    SPC__SQL_CHOICE_IN_DOUBT,
    SPC__SQL_NEXT_CHOICE,
    SPC__SQL_GET_ARTEFACT,
    SPC__SQL_PUT_ARTEFACT,
    SPC__SQL_PUT_FACT,
    SPC__SQL_ALL_FACTS,
    SPC__SQL_SEAL_TRIAL,
    SPC__SQL_SEAL_CHOICE,
    SPC__SQL_SEAL_ARTEFACT,
    SPC__SQL_SEAL_FACT,
    SPC__SQL_QUARANTINE,
    SPC__SQL_FREE_TRIAL,
    SPC__SQL_FREE_CHOICE,
    SPC__SQL_ADD_NETWORK,
    SPC__SQL_ADD_PART,
    SPC__SQL_FIND_NETWORK,
    SPC__SQL_GET_PARTS,
    SPC__SQL_ALL_NETWORKS,
    SPC__SQL_DROP_PARTS,
    SPC__SQL_DROP_NETWORK,
    SPC__SQL_SEAL_NETWORK,
    SPC__SQL_SEAL_PART,
    SPC__SQL_DROP_SEALS,
    SPC__SQL_FREE_NETWORK,
    SPC__SQL_SET_ASIDE,
    SPC__SQL_COUNT
} spc__sql;

/* When a file was read. */
typedef struct spc__file_version {
    int64_t others; /* commits of other handles; < 0: it cannot be read */
    int own;        /* rows this handle changed */
} spc__file_version;

/* A row of `provenance` as choice_row.c keeps it. */
enum { SPC__KEPT_PROVENANCES = 4 };
typedef struct spc__kept_provenance {
    int64_t id;
    spc__file_version at; /* when it was read */
    spc__buf bytes;       /* as they are digested */
} spc__kept_provenance;

/* One file. */
typedef struct spc__layer {
    char *path;
    sqlite3 *db;
    bool writable;
    bool is_only_code; /* it has no choices, and never will */
    bool yields;       /* what it knows comes behind what others know as well */
    int64_t version;   /* of its schema; older tables are read through views */
    spc_error refused; /* why it could not be brought to ours */
    struct spc__manifest *manifest; /* signed: what is not in it is not used;
                                       NULL: nobody asked for that */
    sqlite3_stmt *statements[SPC__SQL_COUNT];
    spc__file_version seen; /* between begin and end of reading */
    spc__kept_provenance provenances[SPC__KEPT_PROVENANCES];
    unsigned next_provenance;
} spc__layer;

typedef struct spc__similar spc__similar; /* similar.c */

struct spc__cache {
    spc__layer *layers; /* uppermost first */
    int count;
    bool has_user;         /* layers[0] is the read-write one */
    spc__similar *similar; /* what near lookups have read */
    int similar_count;
    spc__buf layer_text; /* scratch, so that a hot lookup allocates nothing */
    spc__buf buckets_text;
    spc__buf family_text;
    spc__buf features_text;
    spc__buf config_text;
    spc__buf launch_text;
    spc__buf resources_text;
    spc__buf sealed_bytes;
};

/* schema.c */

/* Judges the file at `path` by its first bytes, without altering it. A file
 * without a byte passes. */
spc_status spc__schema_peek(const char *path, spc_error *error);

/* Size of the file that SQLite keeps beside the one at `path`, which may be a
 * link to it; -1: there is none. */
int64_t spc__sibling_bytes(const char *path, const char *suffix);
bool spc__sibling_is_plain(const char *path, const char *suffix); /* or none */

/* Judges an open database; *empty: it holds nothing at all. `rc`, if not NULL,
 * receives SQLite's code of a read that failed. */
spc_status spc__schema_check(bool *empty, spc__layer *layer, int *rc,
                             spc_error *error);
spc_status spc__schema_create(spc__layer *layer, spc_error *error);

/* What makes them, up to a NULL. */
extern const char *const spc__schema_creation[];

/* tables.c */

/* Names each table, column, view or trigger of a file that is not as ours are
 * made; *usable is false if any of ours is missing or of another kind. */
spc_status spc__tables_verify(bool *usable, spc__layer *layer,
                              spc_status (*each)(const spc__fault *fault,
                                                 void *payload),
                              void *payload, spc_error *error);

/* The tables that v1 had otherwise, under any name. */
#define SPC__TABLE_PROBLEM(name)                                               \
    "CREATE TABLE " name " ("                                                  \
    " id INTEGER PRIMARY KEY,"                                                 \
    " device TEXT NOT NULL,"                                                   \
    " layer TEXT NOT NULL,"                                                    \
    " target TEXT NOT NULL,"                                                   \
    " buckets TEXT NOT NULL,"                                                  \
    " family TEXT NOT NULL,"                                                   \
    " UNIQUE (device, layer, target, buckets))"
#define SPC__INDEX_FAMILY                                                      \
    "CREATE INDEX problem_family ON problem (device, family)"
#define SPC__TABLE_TRIAL(name)                                                 \
    "CREATE TABLE " name " ("                                                  \
    " id INTEGER PRIMARY KEY,"                                                 \
    " problem INTEGER NOT NULL REFERENCES problem (id),"                       \
    " template TEXT NOT NULL,"                                                 \
    " template_hash TEXT NOT NULL,"                                            \
    " config TEXT NOT NULL,"                                                   \
    " status TEXT NOT NULL,"                                                   \
    " median_us REAL,"                                                         \
    " spread_us REAL,"                                                         \
    " cold_us REAL,"                                                           \
    " samples INTEGER NOT NULL,"                                               \
    " error REAL,"                                                             \
    " verified INTEGER NOT NULL,"                                              \
    " compile_ms REAL,"                                                        \
    " features TEXT NOT NULL,"                                                 \
    " artefact TEXT NOT NULL,"                                                 \
    " launch TEXT NOT NULL,"                                                   \
    " resources TEXT NOT NULL,"                                                \
    " note TEXT NOT NULL,"                                                     \
    " provenance INTEGER NOT NULL REFERENCES provenance (id),"                 \
    " unix_seconds INTEGER NOT NULL,"                                          \
    " UNIQUE (problem, template, template_hash, config))"

/* What came with v3. A seal is the digest of the row `record` of the table
 * `kind`, and, of code, what it was compiled for; no seal may be missing. */
#define SPC__TABLE_SEAL                                                        \
    "CREATE TABLE seal ("                                                      \
    " kind TEXT NOT NULL,"                                                     \
    " record INTEGER NOT NULL,"                                                \
    " digest TEXT NOT NULL,"                                                   \
    " identity TEXT NOT NULL,"                                                 \
    " PRIMARY KEY (kind, record)) WITHOUT ROWID"
#define SPC__TABLE_QUARANTINE                                                  \
    "CREATE TABLE quarantine ("                                                \
    " kind TEXT NOT NULL,"                                                     \
    " record INTEGER NOT NULL,"                                                \
    " reason TEXT NOT NULL,"                                                   \
    " unix_seconds INTEGER NOT NULL,"                                          \
    " PRIMARY KEY (kind, record)) WITHOUT ROWID"

/* What came with v4: networks (network.c), and their weights in parts. */
#define SPC__TABLE_NETWORK                                                     \
    "CREATE TABLE network ("                                                   \
    " id INTEGER PRIMARY KEY,"                                                 \
    " name TEXT NOT NULL UNIQUE,"                                              \
    " graph TEXT NOT NULL,"                                                    \
    " weights TEXT NOT NULL," /* SHA-256 of all parts, one behind the other */ \
    " bytes INTEGER NOT NULL,"                                                 \
    " parts INTEGER NOT NULL,"                                                 \
    " source TEXT NOT NULL,"                                                   \
    " version TEXT NOT NULL,"                                                  \
    " unix_seconds INTEGER NOT NULL)"
#define SPC__TABLE_NETWORK_PART                                                \
    "CREATE TABLE network_part ("                                              \
    " id INTEGER PRIMARY KEY,"                                                 \
    " network INTEGER NOT NULL REFERENCES network (id),"                       \
    " part INTEGER NOT NULL,"                                                  \
    " bytes BLOB NOT NULL,"                                                    \
    " UNIQUE (network, part))"

/* What came with v4: who works on what, until when (lease.c). */
#define SPC__TABLE_LEASE                                                       \
    "CREATE TABLE lease ("                                                     \
    " work TEXT PRIMARY KEY NOT NULL,"                                         \
    " owner TEXT NOT NULL,"                                                    \
    " until INTEGER NOT NULL) WITHOUT ROWID"

/* seal.c */

/* The digests, of rows named p (problem), t (trial), v (its provenance),
 * c (choice), u (its provenance), a (artefact), f (fact), n (network), w (part
 * of its weights); a choice's is chained to that of its trial, and a part's to
 * that of its network, whose seal is s. */
#define SPC__PROBLEM_WORDS "p.device, p.layer, p.target, p.buckets, p.family"
#define SPC__DIGEST_TRIAL                                                      \
    "spc_digest('trial', " SPC__PROBLEM_WORDS ", t.template, t.template_hash," \
    " t.config, t.status, t.median_us, t.spread_us, t.cold_us, t.samples,"     \
    " t.error, t.verified, t.compile_ms, t.features, t.artefact, t.launch,"    \
    " t.resources, t.note, t.unix_seconds, v.version, v.compiler, v.driver,"   \
    " v.host, v.scenes, v.seed)"
#define SPC__DIGEST_CHOICE                                                     \
    "spc_digest('choice', s.digest, c.reason, c.unix_seconds, u.version,"      \
    " u.compiler, u.driver, u.host, u.scenes, u.seed)"
#define SPC__DIGEST_ARTEFACT(identity)                                         \
    "spc_digest('artefact', a.key, a.target, a.compiler, a.launch,"            \
    " a.resources, a.digest, " identity ")"
#define SPC__DIGEST_FACT                                                       \
    "spc_digest('fact', f.device, f.name, f.value, f.unix_seconds)"
#define SPC__DIGEST_NETWORK                                                    \
    "spc_digest('network', n.name, n.graph, n.weights, n.bytes, n.parts,"      \
    " n.source, n.version, n.unix_seconds)"
#define SPC__DIGEST_PART "spc_digest('part', s.digest, w.part, w.bytes)"

/* Makes the function spc_digest known; SQLite's result. With a manifest, the
 * digest of what is not in it fits no seal. */
int spc__seal_open(sqlite3 *db);
int spc__seal_restrict(sqlite3 *db, const struct spc__manifest *manifest);

/* Statements that seal all records of a file as they are, up to a NULL. */
extern const char *const spc__seal_everything[];

/* Column i says whether the seal fits the record (`what` and its row, for the
 * sentence); NULL: there is none. */
spc_status spc__seal_check(const spc__layer *layer, sqlite3_stmt *stmt, int i,
                           const char *what, int64_t record, spc_error *error);

/* The sentence for a record that is damaged, and how (spc__seal_fault). */
spc_status spc__seal_fail(const spc__layer *layer, const char *fault,
                          const char *what, int64_t record, spc_error *error);

/* What spc_digest() makes of its arguments, one after the other; and of all. */
void spc__seal_put_null(spc__buf *out);
void spc__seal_put_integer(spc__buf *out, int64_t value);
void spc__seal_put_real(spc__buf *out, double value);
void spc__seal_put_bytes(spc__buf *out, int type, const void *bytes,
                         size_t count);
void spc__seal_of(char hex[65], const void *bytes, size_t count);

/* What is wrong with a record that does not fit. */
const char *spc__seal_fault(const spc__layer *layer, bool sealed);

/* Sets a record aside, if the file may be written now. */
void spc__quarantine(spc__layer *layer, const char *kind, int64_t record,
                     const char *reason);

/* choice_row.c */

/* Reads the choice in the row of a statement for whole ones, and is done with
 * that. While the cache is read; a record whose seal does not fit is set aside,
 * which is the error, and *got says whether another trial of the problem takes
 * its place. `seal` is that of the choice; NULL: the row has it. */
spc_status spc__choice_read(spc__choice *out, bool *got, spc__cache *cache,
                            spc__layer *layer, sqlite3_stmt *stmt,
                            const char *seal, spc_error *error);

/* Likewise of the problem, whose choice is in doubt, or gone with or without
 * its trial. *got is false too if the problem has never had one, or has none
 * any more. */
spc_status spc__choice_read_doubtful(spc__choice *out, bool *got,
                                     spc__cache *cache, spc__layer *layer,
                                     int64_t problem, spc_error *error);

/* keep.c */

/* What takes the place of a choice that is damaged: of the problem ?1 the
 * fastest trial (t) whose seal fits, of no version of a template that has a
 * later one. A search goes on where such a choice is. */
#define SPC__NEXT_REASON "the fastest that is not damaged" SPC__CUT_SHORT
#define SPC__FROM_NEXT                                                         \
    " FROM problem AS p JOIN trial AS t ON t.problem = p.id"                   \
    " JOIN seal AS s ON s.kind = 'trial' AND s.record = t.id"                  \
    " LEFT JOIN provenance AS v ON v.id = t.provenance"                        \
    " WHERE p.id = ?1 AND t.status = 'ok' AND t.verified AND t.samples > 0"    \
    " AND t.median_us IS NOT NULL"                                             \
    " AND NOT EXISTS (SELECT 1 FROM trial AS n WHERE n.problem = p.id"         \
    " AND n.template = t.template AND n.template_hash <> t.template_hash"      \
    " AND n.unix_seconds > t.unix_seconds)"                                    \
    " AND s.digest = " SPC__DIGEST_TRIAL " ORDER BY t.median_us, t.id LIMIT 1"

/* Chooses it, but not while somebody else writes; false: there is none, or the
 * file may not be written. */
bool spc__choose_next(spc__layer *layer, int64_t problem);

/* list.c */

/* The collation spc_buckets, by which a listing is ordered. */
int spc__compare_buckets(void *unused, int a_bytes, const void *a_text,
                         int b_bytes, const void *b_text);

/* upgrade.c */

/* Makes a checked file of an older version serve the statements for ours:
 * brings it to ours, or, where it may not be written or that fails, lays views
 * over it, and it is no longer writable. A file of ours is left alone. */
spc_status spc__upgrade(spc__layer *layer, spc_error *error);

/* statement.c */

/* The sentence for SQLite's result `rc` on this layer; `action` is what could
 * not be done: "write". Always SPC_EDB, but SPC_ENOMEM where memory ran out. */
spc_status spc__layer_fail(const spc__layer *layer, int rc, const char *action,
                           spc_error *error);

/* The prepared statement, ready to bind. Give it back with spc__sql_done(). */
spc_status spc__layer_statement(sqlite3_stmt **out, spc__layer *layer,
                                spc__sql id, spc_error *error);
void spc__sql_done(sqlite3_stmt *stmt); /* NULL is fine */

/* Steps to a row (*row = true) or to the end. */
spc_status spc__layer_step(bool *row, spc__layer *layer, sqlite3_stmt *stmt,
                           const char *action, spc_error *error);

/*
 * What is read between these two is of one moment, spc__layer.seen of each
 * file, and costs its locks once. A file that cannot be read is left out: who
 * reads it will hear why. Whoever writes in between ends the reading first.
 */
void spc__cache_begin_reading(spc__cache *cache);
void spc__cache_end_reading(spc__cache *cache);

/* Runs a bound statement that gives no rows, and is done with it. */
spc_status spc__layer_run(spc__layer *layer, sqlite3_stmt *stmt,
                          spc_error *error);

/* Runs statements of fixed text, up to a NULL. */
spc_status spc__layer_execute(spc__layer *layer, const char *const *sql,
                              const char *action, spc_error *error);

void spc__bind_text(sqlite3_stmt *stmt, int i, const char *text);
void spc__bind_real(sqlite3_stmt *stmt, int i, double value); /* NaN: NULL */
double spc__column_real(sqlite3_stmt *stmt, int i);           /* NULL: NaN */
void spc__column_text(char *out, size_t size, sqlite3_stmt *stmt, int i);
spc_status spc__column_attrs(spc__attrs *out, const spc__layer *layer,
                             sqlite3_stmt *stmt, int i, spc_error *error);

/* The layer that takes writes, or the sentence why there is none. */
spc_status spc__cache_writer(spc__layer **out, spc__cache *cache,
                             spc_error *error);

/* A write transaction: begin; ...; return end(status), which commits if all
 * went well and rolls back otherwise. */
spc_status spc__layer_begin(spc__layer *layer, spc_error *error);
spc_status spc__layer_end(spc__layer *layer, spc_status status,
                          spc_error *error);

/* record.c */

/* Columns of the two records as every SELECT names them, and their numbers. */
#define SPC__KEY_COLUMNS "p.layer, p.device, p.target, t.features"
#define SPC__TRIAL_COLUMNS                                                     \
    "t.template, t.template_hash, t.config, t.launch, t.resources, "           \
    "t.artefact, t.status, t.note, t.median_us, t.spread_us, t.cold_us, "      \
    "t.samples, t.error, t.verified, t.compile_ms"
enum { SPC__KEY_WIDTH = 4, SPC__TRIAL_WIDTH = 15 };

/* Puts the texts of a key (of its family and features, which only some need; of
 * a trial; of what goes with code) into the cache's scratch buffers. */
spc_status spc__cache_key_text(spc__cache *cache, const spc__problem_key *key,
                               spc_error *error);
spc_status spc__cache_family_text(spc__cache *cache,
                                  const spc__problem_key *key,
                                  spc_error *error);
spc_status spc__cache_features_text(spc__cache *cache,
                                    const spc__problem_key *key,
                                    spc_error *error);
spc_status spc__cache_trial_text(spc__cache *cache, const spc__trial *trial,
                                 spc_error *error);
spc_status spc__cache_code_text(spc__cache *cache, const spc__attrs *launch,
                                const spc__attrs *resources, spc_error *error);

/* Binds device, layer, target, buckets as ?1 to ?4 (texts are put). */
void spc__bind_key(sqlite3_stmt *stmt, const spc__cache *cache,
                   const spc__problem_key *key);

/* The row of the problem of the scratch texts; 0 if there is none. */
spc_status spc__problem_find(int64_t *id, spc__layer *layer,
                             const spc__cache *cache,
                             const spc__problem_key *key, spc_error *error);
spc_status spc__problem_claim(int64_t *id, spc__layer *layer, spc__cache *cache,
                              const spc__problem_key *key, spc_error *error);
spc_status spc__provenance_claim(int64_t *id, spc__layer *layer,
                                 const spc__provenance *provenance,
                                 spc_error *error);
/* Status and row of a candidate among a problem's trials; 0: none. */
spc_status spc__trial_find(int64_t *id, spc__trial_status *found,
                           spc__layer *layer, int64_t problem,
                           const char *template_name, const char *template_hash,
                           const char *config, spc_error *error);

spc_status spc__read_key(spc__problem_key *out, const spc__layer *layer,
                         sqlite3_stmt *stmt, int first, spc_error *error);
spc_status spc__read_trial(spc__trial *out, const spc__layer *layer,
                           sqlite3_stmt *stmt, int first, spc_error *error);

/* feature.c */

/* "rows=17.1,density=-2", numbers as they read back exactly. */
void spc__features_format(spc__buf *out, const spc__problem_key *key);

/* "rows=34,density=-4": those with buckets, and not in bucket 0. */
void spc__buckets_format(spc__buf *out, const spc__problem_key *key);

/* Reads what spc__features_format wrote: false, and what stands before, where
 * it makes no sense. */
bool spc__features_parse(spc__problem_key *key, const char *text);

/* Where the value lies in the measure of distances: within the clamped buckets;
 * and the middle of its bucket there. */
double spc__feature_place(const spc__feature *feature);
double spc__feature_middle(const spc__feature *feature);

/* similar.c */

/* A choice as far as a lookup ranks it. */
typedef struct spc__similar_choice {
    int64_t problem;  /* its row in the file */
    int layer;        /* which file */
    int layer_word;   /* its layer's text and its target, as numbers that are */
    int target_word;  /* equal where the words are */
    int seal;         /* the choice's, by its number in the set; -1: none */
    double median_us; /* infinite if it was never timed */
    double middles[SPC__FEATURES_MAX]; /* of its buckets, by the key's order */
} spc__similar_choice;

/* The columns with which both questions for choices begin; the rest is zero. */
void spc__similar_read(spc__similar_choice *out, sqlite3_stmt *stmt, int layer);

/* The tree of the records of one target. */
typedef struct spc__similar_root {
    int target_word;
    int node;
} spc__similar_root;

typedef struct spc__similar_list {
    const spc__similar_choice *at;
    int64_t own_first, own_end; /* those of the key's layer and target */
    const spc__kd_trees *trees; /* of all of them, by their middles */
    const spc__similar_root *roots;
    int root_count;
    int target_word; /* of the key; -1: none of them has it */
} spc__similar_list;

/* The digest in the seal of a record of the key's set; NULL: it is not known,
 * or is none. While the cache is read in which the record was ranked. */
const char *spc__similar_seal(const spc__cache *cache,
                              const spc__problem_key *key,
                              const spc__similar_choice *record);

/* Would the list below be had without reading a file? */
bool spc__similar_is_known(const spc__cache *cache,
                           const spc__problem_key *key);

/*
 * All choices on the key's device of the family of the scratch texts, while the
 * cache is being read. The list lives until the next call. Trouble in one layer
 * is returned, and *out has what the others hold.
 */
spc_status spc__similar_get(spc__similar_list *out, spc__cache *cache,
                            const spc__problem_key *key, spc_error *error);
void spc__similar_free(spc__cache *cache);

#endif
