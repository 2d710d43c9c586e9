/* SPDX-License-Identifier: Apache-2.0 */
/* cache_internal.h - declarations shared by the files of the cache only. */
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
    SPC__BUSY_MS = 5000
};

/* The prepared statements. statement.c has their text. */
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
    SPC__SQL_CHOICE_AT,
    SPC__SQL_CHOICE_IN_DOUBT,
    SPC__SQL_NEXT_CHOICE,
    SPC__SQL_GET_ARTEFACT,
    SPC__SQL_PUT_ARTEFACT,
    SPC__SQL_PUT_FACT,
    SPC__SQL_ALL_FACTS,
    SPC__SQL_NAME_CODE,
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
    SPC__SQL_ALL_DEVICES,
    SPC__SQL_COUNT
} spc__sql;

/* The state of a file when it was read. */
typedef struct spc__file_version {
    int64_t others; /* counter of commits by other handles; < 0: unreadable */
    int own;        /* rows changed by this handle */
} spc__file_version;

/* A row of `provenance` that choice_row.c caches. */
enum { SPC__KEPT_PROVENANCES = 4 };
typedef struct spc__kept_provenance {
    int64_t id;
    spc__file_version at; /* state of the file when it was read */
    spc__buf bytes;       /* the bytes to hash */
} spc__kept_provenance;

/* One file. */
typedef struct spc__layer {
    char *path;
    sqlite3 *db;
    bool writable;
    bool is_only_code; /* the file never has choices */
    bool yields;       /* among equal records, its own rank last */
    spc_error refused; /* why it accepts no writes */
    /* if signed, only records that it lists are used; NULL: no signature is
     * required */
    struct spc__manifest *manifest;
    sqlite3_stmt *statements[SPC__SQL_COUNT];
    spc__file_version seen; /* valid between begin and end of reading */
    spc__kept_provenance provenances[SPC__KEPT_PROVENANCES];
    unsigned next_provenance;
} spc__layer;

typedef struct spc__similar spc__similar;         /* similar.c */
typedef struct spc__device_list spc__device_list; /* devices.c */

struct spc__cache {
    spc__layer *layers; /* uppermost first */
    int count;
    bool has_user;         /* layers[0] is the user's writable file */
    spc__similar *similar; /* records read by near look-ups */
    int similar_count;
    spc__device_list *devices; /* NULL: never asked for */
    /* scratch buffer, so that a repeated lookup allocates nothing */
    spc__buf layer_text;
    spc__buf buckets_text;
    spc__buf family_text;
    spc__buf features_text;
    spc__buf config_text;
    spc__buf launch_text;
    spc__buf resources_text;
    spc__buf sealed_bytes;
};

/* schema.c */

/* Checks the file at `path` by its first bytes without altering it. An empty
 * file passes. */
spc_status spc__schema_peek(const char *path, spc_error *error);

/* Returns the size of the file that SQLite keeps next to `path`, which may be a
 * link, or -1 if it does not exist. */
int64_t spc__sibling_bytes(const char *path, const char *suffix);
/* True if that file is a regular one or does not exist. */
bool spc__sibling_is_plain(const char *path, const char *suffix);

/* Checks an open database. *empty is true if it has no content. `rc`, if not
 * NULL, receives SQLite's code of a failed read. */
spc_status spc__schema_check(bool *empty, spc__layer *layer, int *rc,
                             spc_error *error);
spc_status spc__schema_create(spc__layer *layer, spc_error *error);

/* The statements that create the tables, ended by NULL. */
extern const char *const spc__schema_creation[];

/* seal.c */

/* The digests of rows with these aliases: p (problem), t (trial), v (its
 * provenance), c (choice), u (its provenance), a (artefact), f (fact), n
 * (network), w (part of its weights). A choice's digest includes that of its
 * trial. A part's digest includes the network's seal s. */
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

#define SPC__JOIN_SEAL(s, kind_is, row)                                        \
    " LEFT JOIN seal AS " s " ON " s ".kind = '" kind_is "' AND " s            \
    ".record = " row

/* The rows of each kind with all that their digests cover, and with their
 * seals. Rows with dangling references are included: no seal matches them. */
#define SPC__FROM_TRIALS                                                       \
    " FROM trial AS t LEFT JOIN problem AS p ON p.id = t.problem"              \
    " LEFT JOIN provenance AS v ON v.id = t.provenance" SPC__JOIN_SEAL(        \
        "s", "trial", "t.id")
#define SPC__FROM_CHOICES                                                      \
    " FROM choice AS c LEFT JOIN provenance AS u ON u.id = c.provenance"       \
    " LEFT JOIN trial AS t ON t.id = c.trial" SPC__JOIN_SEAL(                  \
        "s", "trial", "t.id") SPC__JOIN_SEAL("w", "choice", "c.problem")
#define SPC__FROM_ARTEFACTS                                                    \
    " FROM artefact AS a" SPC__JOIN_SEAL("s", "artefact", "a.id")
#define SPC__FROM_FACTS " FROM fact AS f" SPC__JOIN_SEAL("s", "fact", "f.id")
#define SPC__FROM_NETWORKS                                                     \
    " FROM network AS n" SPC__JOIN_SEAL("s", "network", "n.id")
#define SPC__FROM_PARTS                                                        \
    " FROM network_part AS w" SPC__JOIN_SEAL("s", "network", "w.network")      \
        SPC__JOIN_SEAL("x", "part", "w.id")

/* All that has a seal: X(kind, row, alias of its seal, digest, rows). A part
 * follows its network and a choice its trial, whose seals they include. */
#define SPC__SEALED(X)                                                         \
    X("trial", "t.id", "s", SPC__DIGEST_TRIAL, SPC__FROM_TRIALS)               \
    X("choice", "c.problem", "w", SPC__DIGEST_CHOICE, SPC__FROM_CHOICES)       \
    X("artefact", "a.id", "s",                                                 \
      SPC__DIGEST_ARTEFACT("coalesce(s.identity, '')"), SPC__FROM_ARTEFACTS)   \
    X("fact", "f.id", "s", SPC__DIGEST_FACT, SPC__FROM_FACTS)                  \
    X("network", "n.id", "s", SPC__DIGEST_NETWORK, SPC__FROM_NETWORKS)         \
    X("part", "w.id", "x", SPC__DIGEST_PART, SPC__FROM_PARTS)

/* Seals the current state of a kind; a condition may follow. */
#define SPC__SEAL(kind, row, s, digest, from)                                  \
    "REPLACE INTO seal SELECT '" kind "', " row ", " digest ", coalesce(" s    \
    ".identity, '')" from
#define SPC__SEAL_TRIALS                                                       \
    SPC__SEAL("trial", "t.id", "s", SPC__DIGEST_TRIAL, SPC__FROM_TRIALS)

/* Registers the function spc_digest and returns SQLite's result. With a
 * manifest, the digest of an unlisted record matches no seal. */
int spc__seal_open(sqlite3 *db);
int spc__seal_restrict(sqlite3 *db, const struct spc__manifest *manifest);

/* Statements that seal all records of a file in their current state, ended by
 * NULL. */
extern const char *const spc__seal_everything[];

/* Checks column i, which is true if the seal matches the record and NULL if
 * there is no seal. `what` and the row are for the message. */
spc_status spc__seal_check(const spc__layer *layer, sqlite3_stmt *stmt, int i,
                           const char *what, int64_t record, spc_error *error);

/* Writes the sentence for a damaged record and its fault (spc__seal_fault). */
spc_status spc__seal_fail(const spc__layer *layer, const char *fault,
                          const char *what, int64_t record, spc_error *error);

/* These append to `out` what spc_digest() hashes for each of its arguments. The
 * last one hashes everything. */
void spc__seal_put_null(spc__buf *out);
void spc__seal_put_integer(spc__buf *out, int64_t value);
void spc__seal_put_real(spc__buf *out, double value);
void spc__seal_put_bytes(spc__buf *out, int type, const void *bytes,
                         size_t count);

/* Returns the fault of a record whose seal does not match. */
const char *spc__seal_fault(const spc__layer *layer, bool sealed);

/* Sets a record aside, if the file is writable at this moment. */
void spc__quarantine(spc__layer *layer, const char *kind, int64_t record,
                     const char *reason);

/* choice_row.c */

/* Reads the choice in the row of a statement for whole choices, and finishes
 * the statement. Call it while the cache is being read. A record whose seal
 * does not match is set aside and reported as the error; *got then tells
 * whether another trial of the problem replaces it. `seal` is that of the
 * choice; NULL: the row has it. */
spc_status spc__choice_read(spc__choice *out, bool *got, spc__cache *cache,
                            spc__layer *layer, sqlite3_stmt *stmt,
                            const char *seal, spc_error *error);

/* Reads the choice of a problem whose choice is doubtful, or missing with or
 * without its trial. *got is also false for a problem without any choice. */
spc_status spc__choice_read_doubtful(spc__choice *out, bool *got,
                                     spc__cache *cache, spc__layer *layer,
                                     int64_t problem, spc_error *error);

/* keep.c */

/* Replaces a damaged choice: of the problem ?1, the fastest trial (t) whose
 * seal matches and whose template has no later version. A search continues from
 * such a choice. */
#define SPC__NEXT_REASON "the fastest that is not damaged" SPC__CUT_SHORT
#define SPC__FROM_NEXT                                                         \
    SPC__FROM_TRIALS                                                           \
    " WHERE t.problem = ?1 AND t.status = 'ok' AND t.verified"                 \
    " AND t.samples > 0 AND t.median_us IS NOT NULL"                           \
    " AND NOT EXISTS (SELECT 1 FROM trial AS n WHERE n.problem = p.id"         \
    " AND n.template = t.template AND n.template_hash <> t.template_hash"      \
    " AND n.unix_seconds > t.unix_seconds)"                                    \
    " AND s.digest = " SPC__DIGEST_TRIAL " ORDER BY t.median_us, t.id LIMIT 1"

/* Chooses that trial, unless another process is writing. Returns false without
 * such a trial, or if the file is not writable. */
bool spc__choose_next(spc__layer *layer, int64_t problem);

/* Statements that remove records of the quarantine, and records without
 * references. Lists end with NULL. */
extern const char *const spc__prune_quarantined[];
extern const char *const spc__prune_orphans[];

/* Runs the steps within a transaction. ?1 is the time limit. Adds the removed
 * trials, choices and pieces of code to *removed. */
spc_status spc__prune_run(spc__layer *layer, const char *const *steps,
                          int64_t when, int64_t *removed, spc_error *error);

/* list.c */

/* The collation spc_buckets, which orders a listing. */
int spc__compare_buckets(void *unused, int a_bytes, const void *a_text,
                         int b_bytes, const void *b_text);

/* statement.c */

/* Writes the sentence for SQLite's result `rc` on this layer. `action` is the
 * failed operation: "write". Returns SPC_EDB, or SPC_ENOMEM if memory ran
 * out. */
spc_status spc__layer_fail(const spc__layer *layer, int rc, const char *action,
                           spc_error *error);

/* Returns the prepared statement, ready to bind. Return it with
 * spc__sql_done(). */
spc_status spc__layer_statement(sqlite3_stmt **out, spc__layer *layer,
                                spc__sql id, spc_error *error);
void spc__sql_done(sqlite3_stmt *stmt); /* NULL is fine */

/* Prepares a statement that is not kept. The caller finalizes it. */
spc_status spc__layer_prepare(sqlite3_stmt **out, spc__layer *layer,
                              const char *sql, const char *action,
                              spc_error *error);

/* True if the query returns a row. `text`, if not NULL, is bound as ?1. */
bool spc__layer_has(spc__layer *layer, const char *sql, const char *text);

/* Steps to a row (*row = true) or to the end. */
spc_status spc__layer_step(bool *row, spc__layer *layer, sqlite3_stmt *stmt,
                           const char *action, spc_error *error);

/*
 * All reads between these two calls see one state of each file
 * (spc__layer.seen) and pay for its locks once. A file that cannot be read is
 * skipped; the later read reports the error. A write between them ends the
 * reading first.
 */
void spc__cache_begin_reading(spc__cache *cache);
void spc__cache_end_reading(spc__cache *cache);

/* Runs a bound statement that returns no rows, and finishes it. */
spc_status spc__layer_run(spc__layer *layer, sqlite3_stmt *stmt,
                          spc_error *error);

/* Runs a kept statement on the row ?1. */
spc_status spc__layer_run_on(spc__layer *layer, spc__sql id, int64_t row,
                             spc_error *error);

/* Runs statements of fixed text, ended by NULL. */
spc_status spc__layer_execute(spc__layer *layer, const char *const *sql,
                              const char *action, spc_error *error);

void spc__bind_text(sqlite3_stmt *stmt, int i, const char *text);
void spc__bind_real(sqlite3_stmt *stmt, int i, double value); /* NaN: NULL */
double spc__column_real(sqlite3_stmt *stmt, int i);           /* NULL: NaN */
void spc__column_text(char *out, size_t size, sqlite3_stmt *stmt, int i);
spc_status spc__column_attrs(spc__attrs *out, const spc__layer *layer,
                             sqlite3_stmt *stmt, int i, spc_error *error);

/* Returns the writable layer, or the reason why no layer is writable. */
spc_status spc__cache_writer(spc__layer **out, spc__cache *cache,
                             spc_error *error);

/* A write transaction: begin; ...; return end(status). It commits if status is
 * SPC_OK and rolls back otherwise. */
spc_status spc__layer_begin(spc__layer *layer, spc_error *error);
spc_status spc__layer_end(spc__layer *layer, spc_status status,
                          spc_error *error);

/* record.c */

/* The columns of the two records in every SELECT, and their numbers. */
#define SPC__KEY_COLUMNS "p.layer, p.device, p.target, t.features"
#define SPC__TRIAL_COLUMNS                                                     \
    "t.template, t.template_hash, t.config, t.launch, t.resources, "           \
    "t.artefact, t.status, t.note, t.median_us, t.spread_us, t.cold_us, "      \
    "t.samples, t.error, t.verified, t.compile_ms"
enum { SPC__KEY_WIDTH = 4, SPC__TRIAL_WIDTH = 15 };

/* Writes the texts of a key into the cache's scratch buffers. Further functions
 * write the texts of its family and features, of a trial, and of code, which
 * only some statements need. */
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

/* Binds device, layer, target and buckets as ?1 to ?4, from the scratch
 * texts. */
void spc__bind_key(sqlite3_stmt *stmt, const spc__cache *cache,
                   const spc__problem_key *key);

/* Finds the row of the problem in the scratch texts, or 0. */
spc_status spc__problem_find(int64_t *id, spc__layer *layer,
                             const spc__cache *cache,
                             const spc__problem_key *key, spc_error *error);
spc_status spc__problem_claim(int64_t *id, spc__layer *layer, spc__cache *cache,
                              const spc__problem_key *key, spc_error *error);
spc_status spc__provenance_claim(int64_t *id, spc__layer *layer,
                                 const spc__provenance *provenance,
                                 spc_error *error);
/* Finds the status and row of a candidate among a problem's trials, or 0. */
spc_status spc__trial_find(int64_t *id, spc__trial_status *found,
                           spc__layer *layer, int64_t problem,
                           const char *template_name, const char *template_hash,
                           const char *config, spc_error *error);

spc_status spc__read_key(spc__problem_key *out, const spc__layer *layer,
                         sqlite3_stmt *stmt, int first, spc_error *error);
spc_status spc__read_trial(spc__trial *out, const spc__layer *layer,
                           sqlite3_stmt *stmt, int first, spc_error *error);

/* feature.c */

/* Writes "rows=17.1,density=-2", with numbers that read back exactly. */
void spc__features_format(spc__buf *out, const spc__problem_key *key);

/* Writes "rows=34,density=-4": the features with buckets, except bucket 0. */
void spc__buckets_format(spc__buf *out, const spc__problem_key *key);

/* Reads the text of spc__features_format. On an invalid text it returns false
 * and keeps the features read so far. */
bool spc__features_parse(spc__problem_key *key, const char *text);

/* Returns the value on the scale of distances, limited to the clamped buckets.
 * The second returns the middle of its bucket. */
double spc__feature_coordinate(const spc__feature *feature);
double spc__feature_middle(const spc__feature *feature);

/* similar.c */

/* The part of a choice that a look-up needs to rank it. */
typedef struct spc__similar_choice {
    int64_t problem;  /* its row in the file */
    int layer;        /* which file */
    int layer_word;   /* numbers for its layer's text and its target; */
    int target_word;  /* equal texts have equal numbers */
    int seal;         /* index of the choice's seal in the set; -1: none */
    double median_us; /* infinite: never timed */
    /* middles of its buckets, in the order of the key */
    double middles[SPC__FEATURES_MAX];
} spc__similar_choice;

/* Reads the leading columns of both queries for choices. The rest is zero. */
void spc__similar_read(spc__similar_choice *out, sqlite3_stmt *stmt, int layer);

/* The tree of the records of one target. */
typedef struct spc__similar_root {
    int target_word;
    int node;
} spc__similar_root;

typedef struct spc__similar_list {
    const spc__similar_choice *at;
    int64_t own_first, own_end; /* records of the key's layer and target */
    const spc__kd_trees *trees; /* all records, as points at their middles */
    const spc__similar_root *roots;
    int root_count;
    int target_word; /* number of the key's target; -1: no record has it */
} spc__similar_list;

/* Returns the digest in the seal of a record of the key's set, or NULL if it is
 * unknown or invalid. Call it while the cache in which the record was ranked is
 * being read. */
const char *spc__similar_seal(const spc__cache *cache,
                              const spc__problem_key *key,
                              const spc__similar_choice *record);

/* True if spc__similar_get would not need to read a file. */
bool spc__similar_is_known(const spc__cache *cache,
                           const spc__problem_key *key);

/*
 * Returns all choices on the key's device with the family of the scratch texts,
 * while the cache is being read. The list lives until the next call. A failure
 * in one layer is returned, and *out has the choices of the others.
 */
spc_status spc__similar_get(spc__similar_list *out, spc__cache *cache,
                            const spc__problem_key *key, spc_error *error);
void spc__similar_free(spc__cache *cache);

/* devices.c */
void spc__devices_free(spc__cache *cache);

#endif
