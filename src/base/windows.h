/* Windows' functions, for the files that call them. It stands before vk.h: windows.h makes CreateSemaphore a macro,
   which must then hold everywhere. Its other macros spoil names, so that no header includes it. */
#ifndef DITI_WINDOWS_H
#define DITI_WINDOWS_H
#ifdef _WIN32
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h>
#endif
#endif
