// Allocator settings for both programs.
#ifdef DISTBELIEF_JEMALLOC
// glibc returns every large activation to the system and faults it in again each step; jemalloc, set to keep
// its memory, makes steps of convolutional networks a tenth faster. It reads this symbol. One arena suffices,
// because few threads allocate. Huge pages (thp:always) would cost 20 MB per worker for 2 % of resnet18's
// step.
extern "C" {
const char* malloc_conf = "narenas:1,dirty_decay_ms:-1,muzzy_decay_ms:-1,oversize_threshold:0";
}
#endif
