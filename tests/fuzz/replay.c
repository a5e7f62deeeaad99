/* Runs a fuzz target once on each file named; for ctest. */
#include <stdio.h>
#include <stdlib.h>

#include "fuzz.h"

static int replay(const char *path)
{
    static uint8_t data[1 << 20];
    FILE *file = fopen(path, "rb");
    size_t size;

    if (file == NULL) {
        fprintf(stderr, "%s: cannot be read\n", path);
        return EXIT_FAILURE;
    }
    size = fread(data, 1, sizeof(data), file);
    (void)fclose(file);
    printf("%s: %zu bytes\n", path, size);
    return LLVMFuzzerTestOneInput(data, size);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "no corpus file is named\n");
        return EXIT_FAILURE;
    }
    for (int i = 1; i < argc; i++) {
        if (replay(argv[i]) != EXIT_SUCCESS) {
            return EXIT_FAILURE;
        }
    }
    return EXIT_SUCCESS;
}
