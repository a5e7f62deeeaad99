/* cli/html_assets.h - the files of src/cli/assets, built in. */
#ifndef PL_CLI_HTML_ASSETS_H
#define PL_CLI_HTML_ASSETS_H

#include <stddef.h>
#include <stdint.h>

typedef struct pl_html_asset {
    const uint8_t *bytes; /* UTF-8 text, without a NUL */
    size_t n;
} pl_html_asset_t;

extern const pl_html_asset_t PL_HTML_PAGE_CSS, PL_HTML_PAGE_JS;
extern const pl_html_asset_t PL_HTML_UPLOT_MIN_CSS, PL_HTML_UPLOT_IIFE_MIN_JS;
extern const pl_html_asset_t PL_HTML_LICENSE_UPLOT;

#endif /* PL_CLI_HTML_ASSETS_H */
