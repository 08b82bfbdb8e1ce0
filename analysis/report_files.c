/* Folders and files of a report. A file is written under a temporary name and renamed when it is whole, so that a
 * reader, or a report that was interrupted, never shows half of one. */
#include "report_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

an_report_status report_make_folder(report *r, const char *path)
{
    struct stat info;
    for (const char *end = path; *end && r->status == AN_REPORT_OK;) {
        end += strspn(end, "/");
        end += strcspn(end, "/");
        const char *folder = report_text(r, "%.*s", (int)(end - path), path);
        int code = mkdir(folder, 0777) == 0 ? 0 : errno; /* before stat() sets its own */
        if (code != 0 && code != EEXIST && !(stat(folder, &info) == 0 && S_ISDIR(info.st_mode)))
            return report_fail(r, AN_REPORT_IO, "cannot create the folder %s: %s", folder, strerror(code));
        if (stat(folder, &info) == 0 && !S_ISDIR(info.st_mode))
            return report_fail(r, AN_REPORT_IO, "%s is in the way: it is not a folder", folder);
    }
    if (r->status == AN_REPORT_OK && access(path, W_OK | X_OK) != 0)
        return report_fail(r, AN_REPORT_IO, "cannot write into the folder %s: %s", path, strerror(errno));
    return r->status;
}

an_report_status report_file_open(report *r, const char *path, report_file *file)
{
    *file = (report_file){.path = path, .temporary = report_text(r, "%s.part", path)};
    if (r->status != AN_REPORT_OK)
        return r->status;
    file->out = fopen(file->temporary, "w");
    if (!file->out)
        return report_fail(r, AN_REPORT_IO, "cannot write %s: %s", path, strerror(errno));
    return r->status;
}

an_report_status report_file_close(report *r, report_file *file)
{
    const int bad = ferror(file->out);
    int reason = bad ? EIO : 0;
    if (fclose(file->out) != 0 && !reason)
        reason = errno;
    if (!reason && rename(file->temporary, file->path) != 0)
        reason = errno;
    if (reason) {
        unlink(file->temporary);
        return report_fail(r, AN_REPORT_IO, "cannot write %s: %s", file->path, strerror(reason));
    }
    return r->status;
}
