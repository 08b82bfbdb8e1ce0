/* Status codes and error text.
 *
 * Every function of the library that can fail returns a sparge_status. Functions that take a sparge_context keep
 * the text of the last failure there (sparge_error_string); functions without one take an optional sparge_error.
 * A message is one line that names the argument, its value and the limit it broke. */
#ifndef SPARGE_STATUS_H
#define SPARGE_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sparge_status {
    SPARGE_OK = 0,
    SPARGE_ERROR_INVALID_ARGUMENT, /* a value outside its documented range, a shape that does not fit */
    SPARGE_ERROR_UNSUPPORTED,      /* valid, but this method or backend cannot do it; the message is the reason */
    SPARGE_ERROR_OUT_OF_MEMORY,
    SPARGE_ERROR_DEVICE,  /* the device or its driver failed */
    SPARGE_ERROR_IO,      /* a file could not be read or written, or does not hold what it should */
    SPARGE_ERROR_INTERNAL /* a broken invariant: a bug in this library */
} sparge_status;

enum { SPARGE_ERROR_TEXT = 512 };

typedef struct sparge_error {
    sparge_status status;
    char text[SPARGE_ERROR_TEXT]; /* NUL-terminated, truncated if longer, no newline */
} sparge_error;

/* "ok", "invalid argument", "unsupported", ... Never NULL. */
const char *sparge_status_name(sparge_status status);

/* Formats the text into *error (which may be NULL) and returns `status`, so that failing is one statement. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
sparge_status
sparge_fail(sparge_error *error, sparge_status status, const char *format, ...);

#ifdef __cplusplus
}
#endif
#endif
