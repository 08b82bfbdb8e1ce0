/* Results files on the command line. The store's messages name the file already. */
#include "cli/database.h"

#include "cli/options.h"

rs_store *sb_database_open(const char *path, rs_mode mode)
{
    rs_store *store = NULL;
    rs_error error = {.status = RS_OK};
    if (rs_open(path, mode, &store, &error) != RS_OK) {
        sb_fail(SB_EXIT_ENVIRONMENT, "%s", error.text);
        return NULL;
    }
    return store;
}

int sb_database_close(rs_store *store)
{
    rs_error error = {.status = RS_OK};
    if (store && rs_close(store, &error) != RS_OK)
        return sb_fail(SB_EXIT_ENVIRONMENT, "%s", error.text);
    return SB_EXIT_OK;
}

int sb_database_rows(const char *path, int latest, an_rows *rows)
{
    *rows = (an_rows){.row = NULL};
    rs_error error = {.status = RS_OK};
    rs_store *store = sb_database_open(path, RS_READ);
    if (!store)
        return SB_EXIT_ENVIRONMENT;
    if (an_rows_load(store, latest, rows, &error) != RS_OK) {
        rs_error ignored;
        rs_close(store, &ignored);
        return sb_fail(SB_EXIT_ENVIRONMENT, "%s", error.text);
    }
    int code = sb_database_close(store);
    if (code != SB_EXIT_OK)
        an_rows_release(rows);
    return code;
}
