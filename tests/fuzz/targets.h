/* targets.h: the fuzzers there are, a line each: file fuzz_NAME.c, corpus corpus/NAME. */
FUZZ_TARGET(recipes)
FUZZ_TARGET(safetensors)
FUZZ_TARGET(state)
FUZZ_TARGET(text)
