/* pagelane/export.h - PL_API marks what libpagelane exports. */
#ifndef PAGELANE_EXPORT_H
#define PAGELANE_EXPORT_H

#if defined(__GNUC__)
#define PL_API __attribute__((visibility("default")))
#else
#define PL_API
#endif

#endif /* PAGELANE_EXPORT_H */
