/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache.h - the database: problem -> trial -> choice -> artefact.
 *
 * One SQLite file (schema v4), opened as layers: at most one read-write file
 * above any number of read-only (shipped) ones. Reads see all layers, the best
 * valid record wins; writes go to the read-write one. The cache knows no
 * convolution: problems, configurations and targets are attrs, compared by
 * their canonical text, and what problems are near to each other is said by
 * named numbers, their features.
 *
 * A handle is used by one thread at a time; several handles and several
 * processes may use one file (WAL, busy timeout 5 s).
 */
#ifndef SPC_CACHE_H
#define SPC_CACHE_H

#include "base/attrs.h"
#include "spc_status.h"
#include <stdint.h>

typedef struct spc__cache spc__cache;

/*
 * Opens `path` read-write (created with its parent folders if missing, for the
 * user alone; NULL: no writable layer) above `layers` (opened immutable, but
 * for those that are being written or have a journal left beside them: what it
 * holds is read). SPC_EDB: not a database, unreadable, ...; SPC_EDBVERSION:
 * written by a newer schema; SPC_ENOTFOUND: a layer that does not exist. An
 * existing file is never altered by a failed open. A read-only `path` opens for
 * reading, and puts return SPC_EDB saying so.
 *
 * A file of schema v1 to v3 is brought to v4 where it may be written, in one
 * transaction: a process that is stopped leaves a file of one version or the
 * other. Where it may not, or that fails, it is read as it is.
 */
spc_status spc__cache_open(spc__cache **out, const char *path,
                           const char *const *layers, int layer_count,
                           spc_error *error);
/* The same; of `layers` are used only records that are in a manifest which was
 * signed with the key, a public one of minisign. */
spc_status spc__cache_open_signed(spc__cache **out, const char *path,
                                  const char *const *layers, int layer_count,
                                  const char *key, spc_error *error);
/* Of records that fit equally well, the lowest file's come last from now on,
 * however fast: they were measured elsewhere, before the others. */
void spc__cache_yield_lowest(spc__cache *cache);
void spc__cache_close(spc__cache *cache);

/* May what the file holds be run, because nobody but the user and root could
 * have written it? SPC_EDB, and the sentence says who could. What is not there
 * yet may. */
spc_status spc__cache_check_owner(const char *path, spc_error *error);

/* Trial states; the names are the SQL values. */
#define SPC__TRIAL_STATUS_MAP(X)                                               \
    X(OK, "ok")                                                                \
    X(CONSTRAINT, "constraint")                                                \
    X(TEMPLATE, "template")                                                    \
    X(COMPILE, "compile")                                                      \
    X(TIMEOUT, "timeout")                                                      \
    X(LAUNCH, "launch")                                                        \
    X(FAULT, "fault")                                                          \
    X(WRONG, "wrong")

typedef enum spc__trial_status {
#define X(name, text) SPC__TRIAL_##name,
    SPC__TRIAL_STATUS_MAP(X)
#undef X
} spc__trial_status;

const char *spc__trial_status_name(spc__trial_status status);

enum { SPC__FEATURES_MAX = 8, SPC__FEATURE_NAME = 16 };

/*
 * A number by which problems are compared, on a scale where differences count:
 * the log2 of what matters by its ratio. A problem without a feature of some
 * name has the value 0 there, so that new features leave old records as near
 * as they were.
 */
typedef struct spc__feature {
    char name[SPC__FEATURE_NAME]; /* letters, digits and _ */
    double value;
    double weight; /* of a difference of 1, in the distance */
    double width;  /* of its buckets, which are part of the key; 0: it follows
                      from the layer */
} spc__feature;

/*
 * What identifies a measurement: the layer, the device class, and the buckets
 * of the features. Layers that can stand in for each other are of one family,
 * which is a list of attrs too; a key without one is near to its own layer
 * only. How problems are compared is the asker's to say: of a key that was
 * read from a file, family, weights and widths are empty.
 */
typedef struct spc__problem_key {
    spc__attrs layer;
    spc__attrs family;
    spc__feature features[SPC__FEATURES_MAX];
    int feature_count;
    char device[64]; /* device class: "NVIDIA H200", "cpu avx512" */
    char target[24]; /* "sm_90a", "avx512", ... */
} spc__problem_key;

/* Adds a feature. The order is part of the key. */
void spc__feature_add(spc__problem_key *key, const char *name, double value,
                      double weight, double width);
double spc__feature_value(const spc__problem_key *key, const char *name);

/* The bucket of the value: in widths, rounded, clamped to +-128. */
int spc__feature_bucket(double value, double width);

/* Are two keys of the same features in the same buckets? */
bool spc__same_buckets(const spc__problem_key *a, const spc__problem_key *b);

typedef struct spc__trial {
    char template_name[32];
    char template_hash[65];
    spc__attrs config;
    spc__attrs launch;
    spc__attrs resources;
    char artefact[65]; /* key, "" if none */
    spc__trial_status status;
    char note[192];   /* what a failure said */
    double median_us; /* warm */
    double spread_us; /* half of the interquartile range */
    double cold_us;   /* flushed L2; 0 if not measured */
    int samples;
    double error; /* largest error over its tolerance, by the oracle */
    bool verified;
    double compile_ms;
} spc__trial;

/* Where a record comes from. */
typedef struct spc__provenance {
    char version[24]; /* of libspc */
    char compiler[64];
    char driver[32];
    char host[64];
    char scenes[128]; /* specs of the sample scenes */
    uint64_t seed;
    int64_t unix_seconds;
} spc__provenance;

/* Starts (or resumes) a session of trials for a problem: trials put one by
 * one, each durable when the call returns. */
spc_status spc__cache_put_trial(spc__cache *cache, const spc__problem_key *key,
                                const spc__trial *trial,
                                const spc__provenance *provenance,
                                spc_error *error);

/* Names the chosen trial (by template and config; it must have been put, else
 * SPC_ENOTFOUND, and be ok, else SPC_EINVAL) as the winner for key, replacing
 * an older choice. */
spc_status spc__cache_put_choice(spc__cache *cache, const spc__problem_key *key,
                                 const spc__trial *trial, const char *reason,
                                 const spc__provenance *provenance,
                                 spc_error *error);

/* Stores code under its key, once: an artefact that is there already, sound and
 * of the same identity is left alone. The identity says in words what the code
 * was compiled for; "": nobody knows. */
spc_status
spc__cache_put_artefact(spc__cache *cache, const char *key, const char *target,
                        const char *compiler, const char *identity,
                        const spc__attrs *launch, const spc__attrs *resources,
                        const void *code, size_t bytes, spc_error *error);

/* Code, and what it must have been compiled for; what is NULL is not asked.
 * Code that was stored with another launch is not found. */
typedef struct spc__code_wanted {
    const char *key;
    const char *target;
    const char *identity; /* fits also where nobody knows it */
    const spc__attrs *launch;
    bool own_only; /* only from the user's file, not from those below it */
} spc__code_wanted;

/* SPC_OK, SPC_ENOTFOUND, or, by the first copy if there are several, SPC_EDB:
 * it is damaged, SPC_EWRONG: it is other code than is wanted. *code is the
 * caller's (free()); resources may be NULL. */
spc_status spc__cache_get_artefact(spc__cache *cache,
                                   const spc__code_wanted *wanted, void **code,
                                   size_t *bytes, spc__attrs *resources,
                                   spc_error *error);

typedef enum spc__match {
    SPC__MATCH_NONE,
    SPC__MATCH_EXACT,  /* same layer, same buckets */
    SPC__MATCH_BUCKET, /* same layer, no bucket more than two away */
    SPC__MATCH_NEAREST /* farther buckets, another target, or another layer of
                          the family; the caller checks constraints */
} spc__match;

/* The distance of two problems is the sum of the differences of their
 * features, each by its weight, and this for another target. */
#define SPC__DISTANCE_TARGET 4.0

/* How the reason of a choice ends whose search did not come to its end, or
 * whose winner was lost: the next search goes on. */
#define SPC__CUT_SHORT "; its search was cut short"

typedef struct spc__choice {
    spc__match match;
    double distance;      /* 0 exact */
    spc__problem_key key; /* of the record found */
    spc__trial trial;
    char reason[128];
    const char *file; /* the layer it is from; lives as long as the cache */
    int64_t problem;  /* its row there: together they name the record */
} spc__choice;

/* How many files are open, all layers together; the user's; NULL: none is. */
int spc__cache_files(const spc__cache *cache);
const char *spc__cache_user_file(const spc__cache *cache);
const char *spc__cache_file(const spc__cache *cache, int i); /* top to bottom */

/*
 * Choices for `key` in the order of preference: exact, bucket, nearest by
 * distance. Writes up to `capacity` and their number. One problem found in
 * several layers is listed once for each, the least median first and the upper
 * layer where they tie: if one record cannot serve, another may. Only trials
 * that are ok are listed.
 *
 * Database trouble is an error for the caller to log, never to fail on: *count
 * is then what the sound records of all layers gave. A capacity of 1 that
 * hits exactly takes microseconds; what is not exact, or more than 1, tens of
 * them, once the similar choices of all layers were read. So ask for one first,
 * and for more where its constraints refuse it.
 */
spc_status spc__cache_find_choices(spc__cache *cache,
                                   const spc__problem_key *key,
                                   spc__choice *out, int capacity, int *count,
                                   spc_error *error);

/*
 * The same of a problem that has a twin: another one, of the same device and
 * target, that the same configurations serve (NULL: it has none). Where no
 * choice of the problem's own layer is exact or of the bucket, those for the
 * twin are listed too, by match and distance alike, each behind what is as good
 * of `key` itself. The key of a choice says which it is.
 */
spc_status spc__cache_find_choices_of(spc__cache *cache,
                                      const spc__problem_key *key,
                                      const spc__problem_key *twin,
                                      spc__choice *out, int capacity,
                                      int *count, spc_error *error);

/* The best choice for exactly this key, and no near one; *got is false if
 * there is none that is sound. */
spc_status spc__cache_find_exact(spc__cache *cache, const spc__problem_key *key,
                                 spc__choice *out, bool *got, spc_error *error);

/* Sets a choice that was found aside, with the reason: no lookup of its file
 * finds it again until the problem is tuned anew. A file that may not be
 * written stays as it is. */
void spc__cache_refuse(spc__cache *cache, const spc__choice *choice,
                       const char *reason);

/* Was a choice for exactly this problem set aside, in whatever file? Its
 * reason, else "". */
void spc__cache_set_aside(spc__cache *cache, const spc__problem_key *key,
                          char *reason, size_t bytes);

/* All trials of exactly this problem (same layer text, bucket, device, target).
 * A candidate tried in several layers is listed once, from the uppermost where
 * its record is sound. The array is the caller's (free()); NULL if there is
 * none. Trouble with records or layers is returned for the caller to log: *out
 * then has what the others gave. */
spc_status spc__cache_find_trials(spc__cache *cache,
                                  const spc__problem_key *key, spc__trial **out,
                                  int *count, spc_error *error);

/* The trials of the problem that a listing (spc__cache_each) showed so, of that
 * file alone; else as spc__cache_find_trials. None if there is no such
 * problem. */
spc_status spc__cache_trials_of(spc__cache *cache, const char *file,
                                int64_t problem, spc__trial **out, int *count,
                                spc_error *error);

/* Measured facts of a device ("copy_gbps" -> 4300), by device class. Facts
 * put later replace those of the same name and leave the others; an upper
 * layer's fact hides a lower one's. Get: SPC_ENOTFOUND if there is none. */
spc_status spc__cache_put_device(spc__cache *cache, const char *device,
                                 const spc__attrs *facts, spc_error *error);
spc_status spc__cache_get_device(spc__cache *cache, const char *device,
                                 spc__attrs *facts, spc_error *error);

/* Listing for `db ls` and `db show`: one call a record, layer by layer. */
typedef struct spc__cache_row {
    const char *file; /* which layer; lives as long as the cache */
    int64_t problem_id;
    spc__problem_key key;
    int trials;
    int trials_ok;
    bool has_choice;
    spc__trial choice;
    spc__provenance provenance; /* of the choice, else of the newest trial */
    char reason[128];           /* of the choice */
} spc__cache_row;

/* All problems of all layers. SPC_EDB: records that are damaged were left out,
 * and the sentence names the first. */
spc_status spc__cache_each(spc__cache *cache,
                           spc_status (*each)(const spc__cache_row *row,
                                              void *payload),
                           void *payload, spc_error *error);

/* A network by its name. The cache knows no layers: `graph` is a text, and the
 * weights are bytes, in parts that are read and written one by one. */
typedef struct spc__network {
    const char *file; /* which layer; lives as long as the cache */
    int64_t id;       /* its row there */
    const char *name, *graph;
    const char *weights; /* SHA-256 of all parts, in hex */
    int64_t bytes, parts;
    const char *source, *version;
    int64_t unix_seconds;
    const char *fault; /* why it cannot be used; NULL: it can */
} spc__network;

/* Who gives the parts, and who takes what is read. `part` counts from 0; what
 * it takes to fail with SPC_EFORMAT is a record that does not fit. */
typedef struct spc__network_source {
    spc_status (*part)(const void **data, size_t *bytes, int64_t part,
                       void *payload, spc_error *error);
    void *payload;
} spc__network_source;

typedef struct spc__network_reader {
    spc_status (*begin)(const spc__network *network, void *payload,
                        spc_error *error);
    spc_status (*part)(int64_t part, const void *data, size_t bytes,
                       void *payload, spc_error *error);
    spc_status (*end)(void *payload, spc_error *error);
    void *payload;
} spc__network_reader;

/* Stores a network whole or not at all. SPC_ESTATE: there is one of this name
 * in the file that takes writes, and it is not to be replaced. */
spc_status spc__cache_put_network(spc__cache *cache,
                                  const spc__network *network,
                                  const spc__network_source *source,
                                  bool replace, spc_error *error);

/* Reads the uppermost sound network of this name: one that is not what was
 * stored, or that the reader refuses as SPC_EFORMAT, is set aside with the
 * reason, and the next layer's begins anew. SPC_ENOTFOUND; SPC_EDB: what is
 * wrong with the uppermost. */
spc_status spc__cache_get_network(spc__cache *cache, const char *name,
                                  const spc__network_reader *reader,
                                  spc_error *error);

/* Removes a network from the file that takes writes. SPC_ENOTFOUND. */
spc_status spc__cache_drop_network(spc__cache *cache, const char *name,
                                   spc_error *error);

/* All networks, layer by layer, each in the order of the names; those that an
 * upper layer hides as well. The texts live during the call. */
spc_status spc__cache_each_network(spc__cache *cache,
                                   spc_status (*each)(const spc__network *at,
                                                      void *payload),
                                   void *payload, spc_error *error);

/* A record that is not what was stored, or was set aside; the texts live during
 * the call. `kind` is its table, or "code": that of an artefact. */
typedef struct spc__fault {
    const char *file, *kind;
    int64_t record; /* its row; of a choice, that of its problem */
    const char *reason;
} spc__fault;

/* Looks at every record of every file, and at the quarantine; alters nothing.
 */
spc_status spc__cache_verify(spc__cache *cache, int64_t *checked,
                             spc_status (*each)(const spc__fault *fault,
                                                void *payload),
                             void *payload, spc_error *error);

#endif
