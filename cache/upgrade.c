/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upgrade.c - upgrades files of schema v1 to v3 to v4, or reads them as they
 * are.
 *
 * Version 1 supported only submanifold layers. A problem had columns for what
 * is now in its features: the classes of rows and of density, and the channels.
 * `shape` was the layer without its channels, with a comma after each word. A
 * trial had the numbers of the scene. Two SELECTs convert these to version 2.
 * They fill its tables in one transaction. If the file is read-only, they are
 * temporary views that hide the tables they read, so the same statements work
 * for both.
 *
 * Version 2 had no seals. An upgrade seals its records in their current state.
 * If the file is read-only, an empty view replaces the seals, and records are
 * trusted without them, as before. Version 3 had neither networks nor leases;
 * leases only matter in a writable file.
 */
#include "cache/cache_internal.h"

#include "base/error.h"
#include <math.h>

#ifndef SQLITE_INNOCUOUS /* before 3.31, which does not check it */
#define SQLITE_INNOCUOUS 0
#endif

/* The buckets, in the form of spc__buckets_format. The runtime defines the
 * names of the features. */
#define PROBLEMS                                                               \
    "SELECT id, device, layer, target,"                                        \
    " ltrim(CASE rows_bucket WHEN 0 THEN '' ELSE 'rows=' || rows_bucket END"   \
    "  || CASE density_bucket WHEN 0 THEN ''"                                  \
    "     ELSE ',density=' || density_bucket END, ',') AS buckets,"            \
    " rtrim(shape, ',') AS family FROM main.problem"

#define TRIALS                                                                 \
    "SELECT id, problem, template, template_hash, config, status, median_us,"  \
    " spread_us, cold_us, samples, error, verified, compile_ms,"               \
    " v1_features(log2_rows, density,"                                         \
    "  (SELECT cin FROM main.problem AS p WHERE p.id = t.problem),"            \
    "  (SELECT cout FROM main.problem AS p WHERE p.id = t.problem))"           \
    " AS features, artefact, launch, resources, note, provenance,"             \
    " unix_seconds FROM main.trial AS t"

static const char *const views_v1[] = {
    "CREATE TEMP VIEW problem AS " PROBLEMS,
    "CREATE TEMP VIEW trial AS " TRIALS,
    NULL,
};

static const char *const views_v2[] = {
    "CREATE TEMP VIEW seal AS SELECT '' AS kind, 0 AS record, '' AS digest,"
    " '' AS identity WHERE 0",
    "CREATE TEMP VIEW quarantine AS SELECT '' AS kind, 0 AS record,"
    " '' AS reason, 0 AS unix_seconds WHERE 0",
    NULL,
};

static const char *const views_v3[] = {
    "CREATE TEMP VIEW network AS SELECT 0 AS id, '' AS name, '' AS graph,"
    " '' AS weights, 0 AS bytes, 0 AS parts, '' AS source, '' AS version,"
    " 0 AS unix_seconds WHERE 0",
    "CREATE TEMP VIEW network_part AS SELECT 0 AS id, 0 AS network, 0 AS part,"
    " '' AS bytes WHERE 0",
    NULL,
};

/* The rows keep their numbers, which other tables refer to. */
static const char *const steps_v1[] = {
    SPC__TABLE_PROBLEM("problem_v2"),
    SPC__TABLE_TRIAL("trial_v2"),
    "INSERT INTO problem_v2 " PROBLEMS,
    "INSERT INTO trial_v2 " TRIALS,
    "DROP TABLE trial",
    "DROP TABLE problem",
    "ALTER TABLE problem_v2 RENAME TO problem",
    "ALTER TABLE trial_v2 RENAME TO trial",
    SPC__INDEX_FAMILY,
    NULL,
};

static const char *const steps_v2[] = {
    SPC__TABLE_SEAL,
    SPC__TABLE_QUARANTINE,
    NULL,
};

static const char *const steps_v3[] = {
    SPC__TABLE_LEASE,
    SPC__TABLE_NETWORK,
    SPC__TABLE_NETWORK_PART,
    NULL,
};

static const char *const last_steps[] = {
    "REPLACE INTO meta VALUES ('upgraded_by', 'spctune " SPC_VERSION "')",
    "PRAGMA user_version = 4",
    NULL,
};

/* ---- the features of a trial --------------------------------------------- */

static double real_or_nan(sqlite3_value *value)
{
    return sqlite3_value_type(value) == SQLITE_NULL
               ? NAN
               : sqlite3_value_double(value);
}

/* For 0, which no measured scene has, returns the class below all others. */
static double octaves(double number)
{
    return isnan(number) ? NAN : number > 0 ? log2(number) : -INFINITY;
}

/* An invalid number of channels counts as 1, which has no octaves. */
static double channel_octaves(sqlite3_value *value)
{
    sqlite3_int64 channels = sqlite3_value_int64(value);
    return log2((double)(channels > 1 ? channels : 1));
}

/* v1_features(log2_rows, density, cin, cout), in the form of
 * spc__features_format. */
static void make_features(sqlite3_context *context, int count,
                          sqlite3_value **values)
{
    spc__buf text = SPC__BUF_INIT;
    spc__problem_key key;

    (void)count;
    key.feature_count = 0;
    spc__feature_add(&key, "rows", real_or_nan(values[0]), 0, 0);
    spc__feature_add(&key, "density", octaves(real_or_nan(values[1])), 0, 0);
    spc__feature_add(&key, "cin", channel_octaves(values[2]), 0, 0);
    spc__feature_add(&key, "cout", channel_octaves(values[3]), 0, 0);
    spc__features_format(&text, &key);
    if (text.failed)
        sqlite3_result_error_nomem(context);
    else
        sqlite3_result_text(context, spc__buf_text(&text), -1,
                            SQLITE_TRANSIENT);
    spc__buf_release(&text);
}

/* ---- upgrading ----------------------------------------------------------- */

/* Checks under the lock whether another process has already upgraded the
 * file. */
static spc_status upgrade_locked(spc__layer *layer, spc_error *error)
{
    /* The versions to which a step applies. Sealed records are never sealed
     * again, because that would make damaged records look intact. */
    static const struct {
        const char *const *step;
        int64_t from_most;
    } all[] = {{steps_v1, 1},
               {steps_v2, 2},
               {steps_v3, 3},
               {spc__seal_everything, 2},
               {last_steps, 3}};
    enum { STEPS = sizeof(all) / sizeof(*all) };
    bool empty;
    spc_status status = spc__schema_check(&empty, layer, NULL, error);

    if (layer->version >= SPC__SCHEMA_VERSION)
        return status;
    for (int i = 0; i < STEPS && status == SPC_OK; i++)
        if (layer->version <= all[i].from_most)
            status = spc__layer_execute(layer, all[i].step, "upgrade", error);
    return status;
}

/* Replacing tables requires that foreign keys are not enforced. This setting
 * cannot be changed within a transaction. */
static spc_status upgrade_file(spc__layer *layer, spc_error *error)
{
    spc_status status;

    sqlite3_db_config(layer->db, SQLITE_DBCONFIG_ENABLE_FKEY, 0, NULL);
    status = spc__layer_begin(layer, error);
    if (status == SPC_OK)
        status = spc__layer_end(layer, upgrade_locked(layer, error), error);
    sqlite3_db_config(layer->db, SQLITE_DBCONFIG_ENABLE_FKEY, 1, NULL);
    if (status == SPC_OK)
        layer->version = SPC__SCHEMA_VERSION;
    return status;
}

/* Upgrades a writable file. On failure it returns false, the file is unchanged,
 * and `refused` holds the reason. */
static bool try_upgrade(spc__layer *layer)
{
    bool upgraded =
        layer->writable && upgrade_file(layer, &layer->refused) == SPC_OK;

    if (upgraded)
        layer->refused.status = SPC_OK;
    return upgraded;
}

static spc_status lay_views(spc__layer *layer, spc_error *error)
{
    static const char *const in_memory[] = {
        "PRAGMA temp_store = MEMORY", /* keep temporary tables in memory */
        NULL,
    };
    spc_status status = spc__layer_execute(layer, in_memory, "open", error);

    if (status == SPC_OK && layer->version == 1)
        status = spc__layer_execute(layer, views_v1, "open", error);
    if (status == SPC_OK && layer->version < SPC__SEALED_VERSION)
        status = spc__layer_execute(layer, views_v2, "open", error);
    if (status == SPC_OK)
        status = spc__layer_execute(layer, views_v3, "open", error);
    return status;
}

spc_status spc__upgrade(spc__layer *layer, spc_error *error)
{
    int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS;

    if (layer->version >= SPC__SCHEMA_VERSION)
        return SPC_OK;
    int rc = sqlite3_create_function(layer->db, "v1_features", 4, flags, NULL,
                                     make_features, NULL, NULL);
    if (rc != SQLITE_OK)
        return spc__layer_fail(layer, rc, "open", error);
    if (try_upgrade(layer))
        return SPC_OK;
    if (layer->refused.status == SPC_ENOMEM)
        return spc__fail(error, SPC_ENOMEM, "%s", layer->refused.text);
    layer->writable = false;
    return lay_views(layer, error);
}
