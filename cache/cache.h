/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache.h - the database: problem -> trial -> choice -> artefact.
 *
 * It consists of SQLite files (schema v4), opened as layers: at most one
 * read-write file above any number of read-only (shipped) ones. Reads search
 * all layers, and the best valid record wins. Writes go to the read-write file.
 * The cache does not know convolutions: problems, configurations and targets
 * are attrs, compared by their canonical text. Named numbers, the features,
 * define how close two problems are.
 *
 * What a database promises, the file that keeps the promise, and the suite that
 * tests it:
 *
 *   a record that was edited, mixed up or has decayed
 *     is never used                       seal.c               proof, edited
 *   another record serves in its place    lookup/choice_row.c  cache
 *   a network has all of its weights      network/network.c    net_store
 *   'db verify' finds all damage, lost
 *     records and tables included         verify.c             cache, edited
 *   foreign and cut files, and those of
 *     another schema, are refused         schema.c             cache
 *   a foreign file runs no trigger, no
 *     endless query, and blocks nobody    open.c               edited
 *   a shipped file is what the owner of
 *     the key signed, and complete        pack/manifest.c,
 *                                         pack/signature.c     pack
 *   no other user chooses the code        base/owner.c         cache
 *   a pack replaces all files of earlier
 *     packs of its name, and no others    pack/place.c         pack
 *   a killed writer, a full disk or other                      killed,
 *     writers lose no stored record       SQLite, lease.c      full_disk
 *
 * None of these parts can replace another. A seal detects errors, but anyone
 * can compute it, so only a signature shows who made a file. A signature covers
 * the records, not who may replace the file while it is used, so the owner is
 * checked as well. SQLite's own check of its pages knows neither changed
 * numbers nor our tables.
 *
 * One thread at a time may use a handle. Several handles and several processes
 * may use one file (WAL, busy timeout 5 s).
 */
#ifndef SPC_CACHE_H
#define SPC_CACHE_H

#include "base/attrs.h"
#include "spc/status.h"
#include <stdint.h>

typedef struct spc__cache spc__cache;

/*
 * Opens `path` read-write above `layers`. If `path` is missing, it is created
 * with its parent folders, for the user alone. If `path` is NULL, no layer is
 * writable. Layers are opened immutable, unless they are being written or a
 * journal exists next to them, whose content is then read too. Returns SPC_EDB
 * if a file is not a database or is unreadable, SPC_EDBVERSION if it has
 * another schema, SPC_ENOTFOUND if a layer does not exist. A failed open never
 * alters an existing file. If `path` is read-only, it is opened for reading,
 * and puts return SPC_EDB with the reason.
 */
spc_status spc__cache_open(spc__cache **out, const char *path,
                           const char *const *layers, int layer_count,
                           spc_error *error);
/* Like spc__cache_open, but uses only the records of `layers` that are listed
 * in a manifest signed with `key`, a public key of minisign. */
spc_status spc__cache_open_signed(spc__cache **out, const char *path,
                                  const char *const *layers, int layer_count,
                                  const char *key, spc_error *error);
/* From now on, ranks the lowest file's records last among records that fit
 * equally well, even if they are faster: they were measured earlier and
 * elsewhere. */
void spc__cache_yield_lowest(spc__cache *cache);
void spc__cache_close(spc__cache *cache);

/* Checks that only the user and root can write the file, so that its content
 * may be executed. Otherwise returns SPC_EDB, and the sentence names who could
 * write it. A file that does not exist yet passes. */
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
 * A number by which problems are compared, on a scale where differences matter:
 * the log2 of a quantity whose ratio matters. A missing feature has the value
 * 0, so adding a feature does not change the distances of old records.
 */
typedef struct spc__feature {
    char name[SPC__FEATURE_NAME]; /* letters, digits and _ */
    double value;
    double weight; /* distance that a difference of 1 makes */
    /* width of the buckets, which are part of the key; 0: no buckets, as the
     * layer determines the feature */
    double width;
} spc__feature;

/*
 * Identifies a measurement: the layer, the device class, and the buckets of the
 * features. Layers that can replace each other have the same family, which is
 * also a list of attrs. A key without a family matches only its own layer. The
 * caller defines how problems are compared, so family, weights and widths are
 * empty in a key read from a file.
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

/* Returns the value's bucket: value / width, rounded, clamped to +-128. */
int spc__feature_bucket(double value, double width);

/* True if two keys have the same features in the same buckets. */
bool spc__same_buckets(const spc__problem_key *a, const spc__problem_key *b);

typedef struct spc__trial {
    char template_name[32];
    char template_hash[65];
    spc__attrs config;
    spc__attrs launch;
    spc__attrs resources;
    char artefact[65]; /* key of its code; "": none */
    spc__trial_status status;
    char note[192];   /* message of a failure */
    double median_us; /* time with a warm cache */
    double spread_us; /* half of the interquartile range */
    double cold_us;   /* time with a flushed L2; 0: not measured */
    int samples;
    /* largest error against the oracle, divided by the tolerance */
    double error;
    bool verified;
    double compile_ms;
} spc__trial;

/* Where a record comes from. */
typedef struct spc__provenance {
    char version[24]; /* version of libspc */
    char compiler[64];
    char driver[32];
    char host[64];
    char scenes[128]; /* specifications of the sample scenes */
    uint64_t seed;
    int64_t unix_seconds;
} spc__provenance;

/* Stores one trial of a problem. Repeated calls form a session that can be
 * resumed; each trial is durable when the call returns. */
spc_status spc__cache_put_trial(spc__cache *cache, const spc__problem_key *key,
                                const spc__trial *trial,
                                const spc__provenance *provenance,
                                spc_error *error);

/* Makes a trial, given by template and config, the choice for key and replaces
 * the older choice. Returns SPC_ENOTFOUND if the trial was not put, SPC_EINVAL
 * if its status is not ok. */
spc_status spc__cache_put_choice(spc__cache *cache, const spc__problem_key *key,
                                 const spc__trial *trial, const char *reason,
                                 const spc__provenance *provenance,
                                 spc_error *error);

/* Stores code under its key, once: an intact artefact with the same identity is
 * left unchanged. The identity describes in words what the code was compiled
 * for; "" means unknown. */
spc_status
spc__cache_put_artefact(spc__cache *cache, const char *key, const char *target,
                        const char *compiler, const char *identity,
                        const spc__attrs *launch, const spc__attrs *resources,
                        const void *code, size_t bytes, spc_error *error);

/* The code to find, and what it must have been compiled for. NULL fields are
 * not compared. Code that was stored with another launch is not found. */
typedef struct spc__code_wanted {
    const char *key;
    const char *target;
    const char *identity; /* code of an unknown identity also matches */
    const spc__attrs *launch;
    bool own_only; /* search only the user's file */
} spc__code_wanted;

/* Returns SPC_OK or SPC_ENOTFOUND. For a damaged copy it returns SPC_EDB, for
 * code other than the wanted one SPC_EWRONG; if there are several copies, the
 * first one decides. The caller owns *code (free()). `resources` may be
 * NULL. */
spc_status spc__cache_get_artefact(spc__cache *cache,
                                   const spc__code_wanted *wanted, void **code,
                                   size_t *bytes, spc__attrs *resources,
                                   spc_error *error);

typedef enum spc__match {
    SPC__MATCH_NONE,
    SPC__MATCH_EXACT,  /* same layer, same buckets */
    SPC__MATCH_BUCKET, /* same layer, all buckets at most two away */
    SPC__MATCH_NEAREST /* farther buckets, another target, or another layer of
                        * the family; the caller must check constraints */
} spc__match;

/* The distance of two problems is the weighted sum of the differences of their
 * features, plus this for another target. */
#define SPC__DISTANCE_TARGET 4.0

/* The end of a choice's reason if its search did not finish or its winner was
 * lost. The next search continues it. */
#define SPC__CUT_SHORT "; its search was cut short"

typedef struct spc__choice {
    spc__match match;
    double distance;      /* 0 if exact */
    spc__problem_key key; /* key of the record found */
    spc__trial trial;
    char reason[128];
    const char *file; /* the layer that holds it; lives as long as the cache */
    /* its row in the file; file and row identify the record */
    int64_t problem;
} spc__choice;

/* Returns the number of open files, and the path of the user's file (NULL:
 * none). */
int spc__cache_files(const spc__cache *cache);
const char *spc__cache_user_file(const spc__cache *cache);
/* file of layer i, from the top */
const char *spc__cache_file(const spc__cache *cache, int i);

/*
 * Finds choices for `key` in the order of preference: exact, bucket, nearest by
 * distance. Writes up to `capacity` choices and their number. A problem found
 * in several layers is listed once for each layer, the smallest median first,
 * and for equal medians the upper layer. If one record cannot serve, another
 * may. Only trials with status ok are listed.
 *
 * Database failures are returned for the caller to log, and must not fail its
 * work: *count then covers the intact records of all layers. A capacity of 1
 * with an exact hit takes microseconds. Other look-ups take tens of
 * microseconds once the similar choices of all layers have been read. So ask
 * for one choice first, and for more if its constraints refuse it.
 */
spc_status spc__cache_find_choices(spc__cache *cache,
                                   const spc__problem_key *key,
                                   spc__choice *out, int capacity, int *count,
                                   spc_error *error);

/*
 * Like spc__cache_find_choices, for a problem with a substitute: another
 * problem of the same device and target that the same configurations serve
 * (NULL: none). If no choice of the problem's own layer matches exactly or by
 * bucket, the choices for the substitute are listed too, ordered by match and
 * distance. Each comes after equally good ones of `key` itself. A choice's key
 * shows to which problem it belongs.
 */
spc_status spc__cache_find_choices_of(spc__cache *cache,
                                      const spc__problem_key *key,
                                      const spc__problem_key *substitute,
                                      spc__choice *out, int capacity,
                                      int *count, spc_error *error);

/* Finds the best choice for exactly this key. *got is false if there is no
 * intact one. */
spc_status spc__cache_find_exact(spc__cache *cache, const spc__problem_key *key,
                                 spc__choice *out, bool *got, spc_error *error);

/* Marks a found choice as refused, with the reason. Look-ups in its file do not
 * find it until the problem is tuned again. A read-only file is not changed. */
void spc__cache_refuse(spc__cache *cache, const spc__choice *choice,
                       const char *reason);

/* Returns the reason why a choice for exactly this problem was set aside in any
 * file, or "". */
void spc__cache_set_aside(spc__cache *cache, const spc__problem_key *key,
                          char *reason, size_t bytes);

/* Returns all trials of exactly this problem (same layer text, bucket, device,
 * target). A candidate tried in several layers is listed once, from the
 * uppermost layer with an intact record. The caller owns the array (free()); it
 * is NULL if there are no trials. Failures of records or layers are returned
 * for the caller to log; *out then has the trials of the others. */
spc_status spc__cache_find_trials(spc__cache *cache,
                                  const spc__problem_key *key, spc__trial **out,
                                  int *count, spc_error *error);

/* Returns the trials of the problem that spc__cache_each listed with this file
 * and row, from only that file. The array is empty if there is no such problem.
 * Otherwise like spc__cache_find_trials. */
spc_status spc__cache_trials_of(spc__cache *cache, const char *file,
                                int64_t problem, spc__trial **out, int *count,
                                spc_error *error);

/* Facts that hold for all devices of a class, by which devices are compared. An
 * export of choices has them; it has no measured figures, which are those of
 * one machine. */
#define SPC__FACT_MULTIPROCESSORS "multiprocessors"
#define SPC__FACT_SHARED_BLOCK "shared_block"
#define SPC__FACT_MEMORY_GBPS "memory_gbps"

/* Measured facts of a device ("copy_gbps" -> 4300), by device class. Put
 * replaces facts of the same name and keeps the others. An upper layer's fact
 * hides a lower one's. Get returns SPC_ENOTFOUND if no fact is known. */
spc_status spc__cache_put_device(spc__cache *cache, const char *device,
                                 const spc__attrs *facts, spc_error *error);
spc_status spc__cache_get_device(spc__cache *cache, const char *device,
                                 spc__attrs *facts, spc_error *error);

/* A device class that has records, and the target of one of them. */
typedef struct spc__cache_device {
    char device[64];
    char target[24];
} spc__cache_device;

/* Lists the devices of all files, without order. *out lives until the next
 * call. *version changes if the list may have changed. Costs microseconds
 * unless a file has changed. */
spc_status spc__cache_devices(const spc__cache_device **out, int *count,
                              uint64_t *version, spc__cache *cache,
                              spc_error *error);

/* One listed record for `db ls` and `db show`, layer by layer. */
typedef struct spc__cache_row {
    const char *file; /* the layer that holds it; lives as long as the cache */
    int64_t problem_id;
    spc__problem_key key;
    int trials;
    int trials_ok;
    bool has_choice;
    spc__trial choice;
    spc__provenance provenance; /* of the choice, else of the newest trial */
    char reason[128];           /* reason of the choice */
} spc__cache_row;

/* Calls `each` for all problems of all layers. Damaged records are left out;
 * SPC_EDB then names the first one. */
spc_status spc__cache_each(spc__cache *cache,
                           spc_status (*each)(const spc__cache_row *row,
                                              void *payload),
                           void *payload, spc_error *error);

/* Writes the artefact and the resources of a listed choice, and nothing else of
 * it. A choice of a read-only layer stays as it is. */
spc_status spc__cache_name_code(spc__cache *cache, const spc__cache_row *row,
                                spc_error *error);

/* A network and its name. The cache does not know layers: `graph` is a text,
 * and the weights are bytes in parts, which are read and written one by one. */
typedef struct spc__network {
    const char *file; /* the layer that holds it; lives as long as the cache */
    int64_t id;       /* its row in the file */
    const char *name, *graph;
    const char *weights; /* SHA-256 of all parts, in hex */
    int64_t bytes, parts;
    const char *source, *version;
    int64_t unix_seconds;
    const char *fault; /* why the network cannot be used; NULL: it can */
} spc__network;

/* Callbacks that provide the parts of a stored network, and receive those of a
 * read one. `part` counts from 0. A receiver returns SPC_EFORMAT for a record
 * that does not fit. */
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

/* Stores a complete network or nothing. Returns SPC_ESTATE if the writable file
 * has one of this name and it must not be replaced. */
spc_status spc__cache_put_network(spc__cache *cache,
                                  const spc__network *network,
                                  const spc__network_source *source,
                                  bool replace, spc_error *error);

/* Reads the uppermost intact network of this name. One that is damaged, or that
 * the reader refuses with SPC_EFORMAT, is set aside with the reason, and
 * reading starts again with the next layer. Returns SPC_ENOTFOUND, or SPC_EDB
 * with the fault of the uppermost one. */
spc_status spc__cache_get_network(spc__cache *cache, const char *name,
                                  const spc__network_reader *reader,
                                  spc_error *error);

/* Removes a network from the writable file. Returns SPC_ENOTFOUND if it
 * has no network of this name. */
spc_status spc__cache_drop_network(spc__cache *cache, const char *name,
                                   spc_error *error);

/* Calls `each` for all networks, layer by layer, in the order of their names.
 * It includes those hidden by an upper layer. The texts live during the
 * call. */
spc_status spc__cache_each_network(spc__cache *cache,
                                   spc_status (*each)(const spc__network *at,
                                                      void *payload),
                                   void *payload, spc_error *error);

/* A record that is damaged or set aside. The texts live during the call. `kind`
 * is its table, or "code" for an artefact. */
typedef struct spc__fault {
    const char *file, *kind;
    int64_t record; /* row of the record; for a choice, of its problem */
    const char *reason;
} spc__fault;

/* Checks every record of every file, and lists the quarantine. Alters
 * nothing. */
spc_status spc__cache_verify(spc__cache *cache, int64_t *checked,
                             spc_status (*each)(const spc__fault *fault,
                                                void *payload),
                             void *payload, spc_error *error);

#endif
