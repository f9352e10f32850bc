#!/bin/sh
# tests/packages.sh: what `make install-lib` and `make install` put into a prefix is used from there, by pkg-config, CMake,
# C++ and Python, and from nowhere else. Ends with `packages: N passed, N failed`. Part of `make test-all`.
set -u
work=$PWD/build/packages
prefix=$work/prefix
passed=0 failed=0
rm -rf "$work" && mkdir -p "$work"

check() { # check TITLE COMMAND...
    title=$1
    shift
    if "$@" >"$work/log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $title"
        head -n 10 "$work/log" | sed 's/^/    | /'
    fi
}
have() { command -v "$1" >/dev/null 2>&1 || { echo "skipped: $2: $1 is not installed"; false; }; }

check 'make install-lib' make --no-print-directory install-lib PREFIX="$prefix"
check 'make install' make --no-print-directory install PREFIX="$prefix"
root=$PWD tests=$PWD/tests/fixtures/pipe_pixart_sigma examples=$PWD/examples layout=$PWD/tests/support/layout-0.2.txt
cd "$work" || exit 1
export LD_LIBRARY_PATH="$prefix/lib" PKG_CONFIG_PATH="$prefix/lib/pkgconfig"

exports() { # dit_* and nothing else
    nm -D --defined-only "$prefix/lib/libdit.so" | sed 's/.* //' >exported
    grep -q '^dit_job_create$' exported && ! grep -v '^dit_' exported
}
needs() { # the soname, and no library that is not part of the system's C
    readelf -d "$prefix/lib/libdit.so" >dynamic
    grep -q 'SONAME.*\[libdit\.so\.0\.[0-9]*\]' dynamic && ! grep NEEDED dynamic | grep -v '\[lib\(c\|m\|dl\|pthread\)\.so'
}
check 'it exports dit_* alone' exports
check 'it has a soname and needs libc and libm alone' needs

# --- the rule of versions: a program of the same minor version, and no other, finds its library ---
layouts() { # sizes and offsets of every struct in dit.py, as the C compiler sees them
    { echo '#include <dit.h>'
      echo '#include <stddef.h>'
      echo '#include <stdio.h>'
      echo 'int main(void) {'
      DIT_LIBRARY=$prefix/lib/libdit.so PYTHONPATH=$prefix/share/dit python3 -c '
import ctypes, dit
structs = [s for s in vars(dit).values() if isinstance(s, type) and issubclass(s, ctypes.Structure)]
for s in structs:
    name = "dit_" + "".join("_" + l.lower() if l.isupper() else l for l in s.__name__).lstrip("_")
    print("    printf(\"%s %%zu\\n\", sizeof(%s));" % (name, name))
    for field, kind in s._fields_:
        if not (field.startswith("transport_") or field in ("transport", "_zero_begin")):
            print("    printf(\"%s.%s %%zu\\n\", offsetof(%s, %s));" % (name, field, name, field))
'
      echo '    return 0;'
      echo '}'
    } >layouts.c
    cc $(pkg-config --cflags dit) layouts.c -o layouts && ./layouts >c.layouts
    DIT_LIBRARY=$prefix/lib/libdit.so PYTHONPATH=$prefix/share/dit python3 -c '
import ctypes, dit
structs = [s for s in vars(dit).values() if isinstance(s, type) and issubclass(s, ctypes.Structure)]
for s in structs:
    name = "dit_" + "".join("_" + l.lower() if l.isupper() else l for l in s.__name__).lstrip("_")
    print(name, ctypes.sizeof(s))
    for field, kind in s._fields_:
        if not (field.startswith("transport_") or field in ("transport", "_zero_begin")):
            print("%s.%s" % (name, field), getattr(s, field).offset)
' >python.layouts
    cmp c.layouts python.layouts && [ "$(wc -l <c.layouts)" -gt 100 ]
}
recorded() { # structs of a released version stay as they were; before its release, and where the minor version rises, copy the file
    echo "the structs are not those of $layout: programs of that version would pass others"
    cmp c.layouts "$layout"
}
spaces() { # a prefix whose name has spaces, and one that begins with the ~ of a shell that leaves it alone
    place="$work/two  words"
    printf '#include <dit.h>\nint main(void) { return dit_version() != DIT_VERSION; }\n' >spaces.c
    make -C "$root" --no-print-directory install install-lib PREFIX="$place" && test -x "$place/bin/dit" &&
        eval "cc spaces.c -o spaces $(PKG_CONFIG_PATH="$place/lib/pkgconfig" pkg-config --cflags --libs dit)" &&
        LD_LIBRARY_PATH=$place/lib ./spaces || return 1
    HOME=$work make -C "$root" --no-print-directory install-lib PREFIX='~/home' && grep -qx "prefix=$work/home" home/lib/pkgconfig/dit.pc
}
picture() { # picture FILE: some of a PPM's or PNG's pixels differ
    [ "$(od -An -v -tu1 "$1" | tr -s ' ' '\n' | sort -u | wc -l)" -gt 50 ]
}
cxx() {
    c++ -std=c++17 -Wall -Wextra -Werror "$examples/pictures.cpp" -o pictures $(pkg-config --cflags --libs dit) &&
        ./pictures "$tests" "a fox" 7 8 && picture picture-7.ppm && ! cmp -s picture-7.ppm picture-8.ppm &&
        ! ./pictures no/such/model "a fox" 2>told && grep -q 'no/such/model' told || return 1
    ln -sf /dev/full picture-1.ppm && ! ./pictures "$tests" "a fox" 1 2>told && grep -q 'cannot write picture-1.ppm' told
}
by_cmake() {
    mkdir -p cmake && cp "$examples/pictures.cpp" cmake/ || return 1
    printf '%s\n' 'cmake_minimum_required(VERSION 3.13)' 'project(pictures CXX)' 'find_package(dit 0.2 REQUIRED)' \
        'add_executable(pictures pictures.cpp)' 'target_compile_features(pictures PRIVATE cxx_std_17)' \
        'target_link_libraries(pictures dit::dit)' >cmake/CMakeLists.txt
    cmake -S cmake -B cmake/build -DCMAKE_PREFIX_PATH="$prefix" && cmake --build cmake/build && cmake/build/pictures "$tests" "a fox" 9 &&
        picture picture-9.ppm || return 1
    sed -i 's/dit 0\.2/dit 0.1/' cmake/CMakeLists.txt
    ! cmake -S cmake -B cmake/older -DCMAKE_PREFIX_PATH="$prefix"
}
libdir() { # a folder of libraries two deep, in a staged root, where it is found by another name
    where=lib/$(cc -print-multiarch)
    rm -rf root two && make -C "$root" --no-print-directory install-lib DESTDIR="$work/root" PREFIX=/usr LIBDIR="$where" && [ ! -e root/usr/lib/libdit.so ] &&
        mkdir two && cp "$examples/pictures.cpp" two/ && ln -s usr/lib root/lib || return 1
    [ "$(PKG_CONFIG_PATH=root/usr/$where/pkgconfig pkg-config --variable=libdir dit)" = "/usr/$where" ] || return 1
    printf '%s\n' 'cmake_minimum_required(VERSION 3.13)' 'project(pictures CXX)' 'find_package(dit REQUIRED)' 'message("found ${dit_MODELS}")' \
        'add_executable(pictures pictures.cpp)' 'target_link_libraries(pictures dit::dit)' >two/CMakeLists.txt
    for place in lib usr/lib; do
        (unset LD_LIBRARY_PATH && cmake -S two -B "two/$place" -DCMAKE_CXX_STANDARD=17 -Ddit_DIR="$work/root/$place/${where#lib/}/cmake/dit" && cmake --build "two/$place" &&
            "two/$place/pictures" "$tests" "a fox" 11) && picture picture-11.ppm || return 1
    done
}
cmake_subproject() { # what a copy of this folder gives, static and shared, without the prefix
    rm -rf nested && mkdir -p nested/dit && cp "$root/dit.h" "$root/CMakeLists.txt" nested/dit/ && cp "$examples/pictures.cpp" nested/ &&
        printf '%s\n' 'cmake_minimum_required(VERSION 3.13)' 'project(pictures CXX)' 'add_subdirectory(dit)' 'add_executable(pictures pictures.cpp)' \
            'target_compile_features(pictures PRIVATE cxx_std_17)' 'target_link_libraries(pictures dit::dit)' >nested/CMakeLists.txt || return 1
    for shared in OFF ON; do
        (unset LD_LIBRARY_PATH && cmake -S nested -B nested/$shared -DBUILD_SHARED_LIBS=$shared && cmake --build nested/$shared && rm -f picture-12.ppm &&
            nested/$shared/pictures "$tests" "a fox" 12) && picture picture-12.ppm || return 1
    done
    [ -e nested/OFF/dit/libdit.a ] && [ "$(readlink nested/ON/dit/libdit.so.${version%.*})" = "libdit.so.$version" ] &&
        ! nm -D --defined-only nested/ON/dit/libdit.so | grep -v ' dit_'
}
python() {
    DIT_LIBRARY=$prefix/lib/libdit.so PYTHONPATH=$prefix/share/dit python3 - "$tests" "$prefix/bin/dit" <<'END'
import subprocess, sys, dit
seen = []
with dit.Context(log=lambda level, message: seen.append(message), level=3) as context, context.load(sys.argv[1]) as model:
    assert model.info.family == b"pixart" and seen
    steps = []
    a, b = model.generate("a fox", width=32, height=32, steps=2, seed=5, count=2, progress=lambda f, s, n: steps.append((f, s, n)))
    again = model.generate("a fox", width=32, height=32, steps=2, seed=6)[0]
    assert len(a.rgba) == 32 * 32 * 4 and a.rgba != b.rgba and b.rgba == again.rgba
    assert steps and steps[-1][2] == 2
    a.save("python.png")
    told = subprocess.run([sys.argv[2], "-q", "-m", sys.argv[1], "--prompt", "a fox", "--init-img", "python.png", "--steps", "2", "-W", "32", "-H", "32", "-o", "again.png"])
    assert told.returncode == 0  # the program reads the PNG
    for call, told in ((lambda: model.generate("x", width=33, height=32), "33"), (lambda: model.generate("x", sampler="nonsense"), "nonsense"),
                       (lambda: context.load("no/such/model"), "no/such/model"),
                       (lambda: model.generate("x", width=32, height=32, steps=400, progress=lambda *_: False), "cancelled")):
        try:
            call()
        except dit.DitError as error:
            assert told in str(error), error
        else:
            raise AssertionError(told)
    for name, number in (("seed", -1), ("seed", 2**64), ("width", 2**32 + 32), ("steps", -1), ("count", 2**32 + 1)):
        try:
            model.generate("x", **{"width": 32, "height": 32, "steps": 2, name: number})
        except ValueError as error:
            assert f"{name} is {number}; it must be 0 to " in str(error), error
        else:
            raise AssertionError(f"{name} is cut off")
END
}
python_lifetimes() { # whoever is closed first, in whichever thread; labels that are missing; a name that is no UTF-8
    DIT_LIBRARY=$prefix/lib/libdit.so PYTHONPATH=$prefix/share/dit python3 - "$tests" <<'END'
import sys, threading, dit
with dit.Context() as context:
    model = context.load(sys.argv[1])
    for path in ("é" * 252, "\udcff"):
        try:
            context.load(path)
        except dit.DitError as error:
            assert error.result == -8, error
        else:
            raise AssertionError(path)
    for call in (lambda: context.load(sys.argv[1] + "\0.bak"), lambda: model.generate("a fox\0 in snow", width=32, height=32, steps=1)):
        try:
            call()
        except ValueError as error:
            assert "a NUL" in str(error), error
        else:
            raise AssertionError("a text is cut off")
assert len(model.generate("a fox", width=32, height=32, steps=1, count=0)) == 1
begun, painted = threading.Event(), []
def paint():
    painted.extend(model.generate("a fox", width=32, height=32, steps=20, progress=lambda *_: begun.set()))
thread = threading.Thread(target=paint)
thread.start()
begun.wait()
model.close()
thread.join()
assert len(painted) == 1
for call, kind in ((lambda: model.generate("a fox"), dit.DitError), (lambda: context.load(sys.argv[1]), dit.DitError)):
    try:
        call()
    except kind as error:
        assert "closed" in str(error), error
    else:
        raise AssertionError("it is closed")
with dit.Context() as context, context.load(sys.argv[1] + "/../pipe_dit") as model:
    try:
        model.generate(classes=[3], count=2, width=32, height=32, steps=1)
    except ValueError as error:
        assert "1 labels for 2 pictures" in str(error), error
    else:
        raise AssertionError("a label is missing")
    a, b = model.generate(classes=[3, 1], count=2, width=32, height=32, steps=1)
    assert a.rgba == model.generate(classes=["3"], width=32, height=32, steps=1)[0].rgba != b.rgba
    try:
        model.generate(classes=["no such thing"], width=32, height=32, steps=1)
    except ValueError as error:
        assert "no class 'no such thing'" in str(error), error
    else:
        raise AssertionError("a class that there is not")
    try:
        model.generate(classes=[2**32], width=32, height=32, steps=1)
    except ValueError as error:
        assert "a class is 4294967296" in str(error), error
    else:
        raise AssertionError("a label is cut off")
frames, read = [], dit.Job._read
def count_frames(job, *rest):
    frames.append(job.status.frame_count)
    return read(job, *rest)
dit.Job._read = count_frames
with dit.Context() as context, context.load(sys.argv[1] + "/../pipe_ltx") as model:
    assert len(model.generate("a fox", width=64, height=64, steps=1)) == 1 and frames == [1], frames
END
}
python_raises() { # what hooks raise, and Ctrl-C in the middle of a call, end the call, and nothing is left behind
    DIT_LIBRARY=$prefix/lib/libdit.so PYTHONPATH=$prefix/share/dit python3 - "$tests" <<'END'
import ctypes, os, signal, sys, dit
def fails(kind, call, *words):
    try:
        call()
    except kind as error:
        assert all(word in str(error) for word in words), error
    else:
        raise AssertionError((kind, words))
class Mine(Exception):
    pass
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
def refuse(*_):
    raise Mine("mine")
fails(Mine, lambda: dit.Context(log=refuse, level=3), "mine")
made, destroyed = [], []
def interrupt(name):
    function = getattr(dit._lib, name)
    def interrupted(*arguments):
        os.kill(os.getpid(), signal.SIGINT)
        return function(*arguments)
    setattr(dit._lib, name, interrupted)
    return lambda: setattr(dit._lib, name, function)
for name in ("dit_context_destroy", "dit_model_destroy", "dit_job_destroy"):
    def counted(at, destroy=getattr(dit._lib, name), name=name):
        destroyed.append((name, bool(at)))
        destroy(at)
    setattr(dit._lib, name, counted)
back = interrupt("dit_context_create")
fails(KeyboardInterrupt, dit.Context)
back()
assert destroyed in ([("dit_context_destroy", True)], [("dit_context_destroy", False)]), destroyed
del destroyed[:]
with dit.Context() as context:
    back = interrupt("dit_model_load")
    fails(KeyboardInterrupt, lambda: context.load(sys.argv[1]))
    back()
    assert [name for name, _ in destroyed] == ["dit_model_destroy"], destroyed  # a cancelled one is NULL
    fails(Mine, lambda: context.load(sys.argv[1], progress=refuse), "mine")
    fails(dit.DitError, lambda: context.load(sys.argv[1], progress=lambda *_: False), "cancelled")
    with context.load(sys.argv[1]) as model:
        for name in ("dit_job_create", "dit_job_wait", "dit_encode_prompt"):
            back = interrupt(name)
            fails(KeyboardInterrupt, lambda: model.encode("a fox") if name == "dit_encode_prompt" else
                  model.generate("a fox", width=32, height=32, steps=400))
            back()
        fails(Mine, lambda: model.generate("a fox", width=32, height=32, steps=400, progress=refuse), "mine")
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert len(model.generate("a fox", width=32, height=32, steps=1)) == 1
assert destroyed[-2:] == [("dit_model_destroy", True), ("dit_context_destroy", True)], destroyed
fails(dit.DitError, lambda: dit.Context(devices=77), "77")
with dit.Context(devices=0) as context:
    assert context.device.name == dit.devices()[0].name and context.device.memory > 0
with dit.Context(devices=[0, "0"]) as context, context.load(sys.argv[1]) as model:
    assert len(model.generate("a fox", width=32, height=32, steps=1, split="cfg2")) == 1
END
}
python_more() { # start pictures, prompts as bytes, parts, LoRAs, caches and clips
    DIT_LIBRARY=$prefix/lib/libdit.so PYTHONPATH=$prefix/share/dit python3 - "$tests" <<'END'
import sys, dit
def fails(kind, call, *words):
    try:
        call()
    except kind as error:
        assert all(word in str(error) for word in words), error
    else:
        raise AssertionError((kind, words))
fixtures = sys.argv[1] + "/../"
lora = fixtures + "lora_pixart_sigma/lora"
told = []
assert "euler" in dit.samplers() and "karras" in dit.schedules()
with dit.Context() as context, context.load(sys.argv[1], components={"vae": sys.argv[1] + "/vae"}, loras=[lora, (lora, 0.5)],
                                            progress=lambda part, done, total: told.append(part)) as model:
    what = dict(width=32, height=32, steps=4, seed=5)
    def paint(prompt, **more):
        return model.generate(prompt, **dict(what, **more))[0]
    fox = paint("a fox")
    assert model.info.lora_count == 2 and "transformer" in told
    assert paint("a fox", lora_weights=[0, 0]).rgba != fox.rgba == paint("a fox", lora_weights=[1, 0.5]).rgba
    assert paint(model.encode("a fox"), negative_prompt=model.encode("")).rgba == fox.rgba
    assert paint(model.encode("a (fox:1.3)", weighted=True)).rgba == paint("a (fox:1.3)", prompt_weights=True).rgba
    owl = paint("an owl", init=fox, strength=0.5)
    assert (owl.width, owl.height) == (32, 32) and owl.rgba not in (fox.rgba, paint("an owl").rgba)
    tall = model.generate("an owl", init=dit.Picture(32, 64, bytes(32 * 64 * 4)), steps=1)[0]
    assert (tall.width, tall.height) == (32, 64)
    black = dit.Picture(32, 32, bytes(32 * 32 * 4))
    assert paint("an owl", init=fox, strength=1, mask=black).rgba != paint("an owl", init=fox, strength=1).rgba
    fails(ValueError, lambda: paint("x", init=dit.Picture(32, 32, fox.rgba[1:])), "init has 4095 bytes", "have 4096")
    fails(ValueError, lambda: paint("x", init=[]), "init is empty")
    fails(dit.DitError, lambda: paint("x", init=fox, width=64), "init_image")
    fails(TypeError, lambda: paint("x", strenght=1), "strenght")
    fails(TypeError, lambda: paint("x", steps=2.0), "steps is 2.0", "whole")
    fails(TypeError, lambda: paint("x", guidance="3"), "guidance is '3'")
    with context.load(sys.argv[1], parts=("transformer", "vae"), loras=[lora, (lora, 0.5)]) as bare:
        told = bare.generate(model.encode("a fox"), model.encode(""), **what)[0]
        assert told.rgba == fox.rgba and bare.info.weight_bytes < model.info.weight_bytes
        fails(dit.DitError, lambda: bare.generate("a fox", **what), "T5 text encoder", "conditioning")
    fails(ValueError, lambda: context.load(sys.argv[1], parts=["vea"]), "'vea'")
    half = dit.mix(model.encode("a fox"), model.encode("an owl"), 0.5)
    assert dit.mix(model.encode("a fox"), model.encode("an owl"), 0) and paint(half).rgba not in (fox.rgba, paint("an owl").rgba)
    fails(ValueError, lambda: dit.mix(half, half[:-1], 0.5), "no prompts of one model")
    fails(dit.DitError, lambda: dit.mix(half, half, 1.5), "part is 1.5")
    small, large = model.memory(width=32, height=32), model.memory(prompt="a fox", width=128, height=128, count=2)
    assert 0 < small.activations < large.activations and small.weights == large.weights > 0 and small.peak >= small.weights
    fails(dit.DitError, lambda: model.memory(width=33), "33")
    for kind in ("proj", "vae"):
        seen = []
        shown = paint("a fox", steps=400, preview=lambda *now: seen.append(now), preview_interval=4, preview_kind=kind)  # more than a first wait has
        assert seen and all(len(picture.rgba) == picture.width * picture.height * 4 and 0 < step <= 400 for picture, step in seen)
        assert len({picture.rgba for picture, _ in seen}) > 1 and shown.rgba == paint("a fox", steps=400).rgba
    fails(ValueError, lambda: paint("x", preview_kind="best"), "'best'", "'proj'")
    fails(TypeError, lambda: paint("x", seed=None), "seed is None")  # which often stands for a random one: 0 is not
    assert paint("a fox", guidance=None, strength=None, vae_tile=None, sampler=None).rgba == fox.rgba
    fails(TypeError, lambda: model.clip("x", count=2), "count")
    fails(dit.DitError, lambda: paint("x", cache="teacup"), "teacup")
    fails(dit.DitError, lambda: paint(model.encode("x")[:-1]), "damaged")
    fails(ValueError, lambda: context.load(sys.argv[1], components={"vea": "x"}), "'vea'", "text_encoder_2")
    fails(ValueError, lambda: context.load(sys.argv[1], loras=[(lora, 0)]), "weight")
    fails(dit.DitError, lambda: context.load(sys.argv[1], loras=["no/such/lora"]), "no/such/lora")
    cache = context.save_cache()
    with dit.Context(cache=cache) as again:
        assert again.save_cache() and again.device == context.device
    with context.load(fixtures + "pipe_ltx") as clips:
        frames = clips.clip("a fox", frames=clips.frames(10), width=64, height=64, steps=1)
        assert clips.frames() == clips.info.default_frames and clips.memory(frames=0, width=64, height=64).host > clips.memory(width=64, height=64).host
        assert len(frames) == 9 and all(len(frame.rgba) == 64 * 64 * 4 for frame in frames) and frames[0].rgba != frames[8].rgba
        fails(dit.DitError, lambda: clips.clip("a fox", frames=10, width=64, height=64, steps=1), "frame_count 10", "9")
END
}
python_objects() { # jobs, LoRAs of a loaded model, traces, headers alone, and frames of an engine's
    DIT_LIBRARY=$prefix/lib/libdit.so PYTHONPATH=$prefix/share/dit python3 "$root/tests/python/test.py" "$tests" >objects.log || return 1
    cat objects.log && grep -q '^1[0-9][0-9] checks' objects.log
}
functions() { # functions [NAMES]: docs/languages.md, dit.py and dit.cs, whose public members NAMES has, have each function of dit.h
    DIT_LIBRARY=$prefix/lib/libdit.so PYTHONPATH=$prefix/share/dit python3 "$root/tests/python/functions.py" "$root" "$@"
}
blocks() { # blocks LANGUAGE PREFIX: the code of docs/languages.md in that language, to PREFIX1, PREFIX2...
    awk -v fence="\`\`\`$1" -v prefix="$2" '$0 == fence { file = prefix (++count); next } /^```/ { file = "" } file { print >file }
        END { exit !count }' "$root/docs/languages.md"
}
python_pages() { # the Python of the page and of dit.py's own text runs; two steps are enough
    rm -rf pages && mkdir pages && ln -s "$root/models" pages/models && blocks python pages/page && python3 - "$root/examples/python/dit.py" >pages/page0 <<'END' || return 1
import ast, sys
lines = ast.get_docstring(ast.parse(open(sys.argv[1], encoding="utf-8").read())).splitlines()
print("\n".join(line[4:] for line in lines if line.startswith("    ")))
END
    for page in pages/page*; do
        (cd pages && DIT_LIBRARY=$prefix/lib/libdit.so PYTHONPATH=$prefix/share/dit python3 - "${page#pages/}" <<'END') || return 1
import importlib.util, sys
import dit
sys.modules["dit_h"] = dit
describe = dit.Model._describe
dit.Model._describe = lambda model, desc, handle, what, keep: describe(model, desc, handle, dict(what, steps=what.get("steps") or 2), keep)
if importlib.util.find_spec("numpy") is None:
    dit.Picture.numpy = lambda picture: None
exec(compile(open(sys.argv[1], encoding="utf-8").read(), sys.argv[1], "exec"))
END
    done
    [ -e pages/page0 ] && [ -e pages/page2 ] && picture pages/fox.png && picture pages/orca.png && picture pages/cat.png
}
csharp_pages() { # so does the C#
    rm -rf pages-cs && mkdir pages-cs && ln -s "$root/models" pages-cs/models && blocks csharp pages-cs/page &&
        { echo 'static class Head { static void Main() {'; sed -n 's,^//     ,,p' "$root/examples/csharp/dit.cs"; echo '} }'; } >pages-cs/page0 || return 1
    for page in pages-cs/page*; do mv "$page" "$page.cs"; done
    mcs -langversion:7 -warnaserror -nowarn:219 -out:pages-cs/head.exe "$prefix/share/dit/dit.cs" pages-cs/page0.cs && rm pages-cs/page0.cs &&
        mcs -langversion:7 -warnaserror -out:pages-cs/page.exe "$prefix/share/dit/dit.cs" pages-cs/page*.cs &&
        (cd pages-cs && mono head.exe && mono page.exe) && picture pages-cs/fox.rgba
}
python_finds() ( # the library of the prefix that has dit.py, and one beside it; DIT_LIBRARY is before both
    unset DIT_LIBRARY LD_LIBRARY_PATH
    rm -rf beside && mkdir beside && cp "$prefix/share/dit/dit.py" "$prefix/lib/libdit.so.${version%.*}" beside/ || exit 1
    for folder in "$prefix/share/dit" "$work/root/usr/share/dit" beside; do
        [ ! -d "$folder" ] || PYTHONPATH=$folder python3 -c 'import dit; print(dit._lib._name); assert dit.samplers()' >found || exit 1
    done
    grep -q 'beside/libdit' found && DIT_LIBRARY=$prefix/lib/libdit.so PYTHONPATH=beside python3 -c 'import dit; assert "beside" not in dit._lib._name'
)
numpy() { # rows from the top, as bytes and as an array
    DIT_LIBRARY=$prefix/lib/libdit.so PYTHONPATH=$prefix/share/dit "$1" - "$tests" <<'END'
import sys, dit, numpy
with dit.Context() as context, context.load(sys.argv[1]) as model:
    picture = model.generate("a fox", width=32, height=64, steps=1, seed=5)[0]
    pixels = picture.numpy()
    assert pixels.shape == (64, 32, 4) and pixels.dtype == numpy.uint8 and (pixels[..., 3] == 255).all()
    assert pixels.tobytes() == picture.rgba and pixels[3, 5, 1] == picture.rgba[(3 * 32 + 5) * 4 + 1] and pixels.std() > 1
    def again(init, **more):
        return model.generate("an owl", steps=2, seed=5, init=init, **more)[0].rgba
    grey, wide = numpy.ascontiguousarray(pixels[..., 0]), numpy.zeros((64, 40, 3), numpy.uint8)
    wide[:, :32] = pixels[..., :3]
    assert again(pixels) == again(picture) == again(pixels[..., :3]) == again(wide[:, :32])  # rows that others lie between, too
    assert again(grey) == again(numpy.stack([grey] * 3, axis=2))
    class Palette:  # as an image of PIL is: an array of it has numbers of colours
        def convert(self, mode):
            assert mode == "RGBA"
            return pixels
        def __array__(self, *_, **__):
            return grey
    assert again(Palette()) == again(pixels)
    assert again(pixels, mask=grey) != again(pixels)
    for wrong in (pixels.astype(float), pixels[..., :2], pixels[0, :, 0], [pixels, pixels.astype(float)]):
        try:
            again(wrong)
        except ValueError as error:
            assert "init is " in str(error) and "uint8" in str(error), error
        else:
            raise AssertionError("an array of another shape")
    try:
        model.generate("a fox", width=32, height=32, steps=400, progress=lambda *_: numpy.bool_(False))
    except dit.DitError as error:
        assert error.result == 2, error
    else:
        raise AssertionError("numpy's False cancels, too")
END
}
pip_gets() { # what pip builds a package with; without a network there is none
    rm -rf pip && python3 -m venv pip && pip/bin/pip download -q --no-deps -d pip/backend 'setuptools>=70.1' >/dev/null 2>&1
}
pip_installs() ( # from a clone that has nothing but what the package is made of, by a compiler of the caller's
    rm -rf clone && mkdir -p clone/examples && cp "$root/dit.h" "$root/LICENSE" clone/ && mkdir clone/examples/python &&
        cp "$root"/examples/python/*.* clone/examples/python/ || exit 1
    export PIP_NO_INDEX=1 PIP_FIND_LINKS="$work/pip/backend"
    ! CC='cc -DVULKAN_CORE_H_ -include no/such/header.h' pip/bin/pip install clone/examples/python >told 2>&1 &&
        grep -q 'libvulkan-dev' told && pip/bin/pip install clone/examples/python && installed clone
)
installed() { # the package of pip is the library, and draws what the program draws
    folder=$(cd / && "$work/pip/bin/python" -c 'import os, dit_h; print(os.path.dirname(dit_h.__file__))') && [ -e "$folder/py.typed" ] &&
        cmp "$root/LICENSE" "$folder/LICENSE" && cmp "$root/examples/python/dit.py" "$folder/__init__.py" &&
        readelf -d "$folder/libdit.so.${version%.*}" | grep -q "SONAME.*libdit.so.${version%.*}" || return 1
    nm -D --defined-only "$folder/libdit.so.${version%.*}" | sed 's/.* //' | cmp - exported || return 1
    (unset DIT_LIBRARY LD_LIBRARY_PATH && "$work/pip/bin/python" - "$root/models/emoji-q8_0.gguf" "$prefix/bin/dit" "$1" <<'END'
import importlib.metadata, struct, subprocess, sys, zlib
import dit_h as dit
model, program, name = sys.argv[1:]
assert dit._lib._name.startswith(sys.prefix) and importlib.metadata.version("dit-h") == dit.version()
def pixels(path):  # RGB of a PNG
    data, at, packed = open(path, "rb").read(), 8, b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", data[at + 8:at + 18])
        packed += data[at + 8:at + 8 + size] if kind == b"IDAT" else b""
        at += size + 12
    assert (depth, colour) == (8, 2)
    packed, row, rows = zlib.decompress(packed), bytearray(width * 3), b""
    for y in range(height):
        filtered, above, row = packed[y * (width * 3 + 1):(y + 1) * (width * 3 + 1)], row, bytearray()
        for x, value in enumerate(filtered[1:]):
            left, up, corner = (row[x - 3], above[x], above[x - 3]) if x > 2 else (0, above[x], 0)
            paeth = min((left, up, corner), key=lambda near: abs(left + up - corner - near))
            row.append((value + (0, left, up, (left + up) // 2, paeth)[filtered[0]]) % 256)
        rows += row
    return rows
with dit.Context() as context, context.load(model) as loaded:
    made = loaded.generate("fox, flat style", steps=2, seed=7, width=256, height=256)[0]
subprocess.run([program, "-q", "-m", model, "-p", "fox, flat style", "--steps", "2", "-s", "7", "-W", "256", "-H", "256", "-o", name + ".png"], check=True)
wanted = pixels(name + ".png")
assert len(set(wanted)) > 50 and bytes(made.rgba[i] for i in range(len(made.rgba)) if i % 4 != 3) == wanted
END
    )
}
pip_sources() ( # a source distribution builds the same where there is no clone
    rm -rf sources pip/lib/python3*/site-packages/dit_h* && mkdir sources && pip/bin/pip install -q --no-index --find-links pip/backend -U setuptools &&
        (cd clone/examples/python && "$work/pip/bin/python" setup.py -q sdist -d "$work/sources") || exit 1
    export PIP_NO_INDEX=1 PIP_FIND_LINKS="$work/pip/backend"
    ls sources/*.tar.gz && mkdir sources/wheel && pip/bin/pip wheel -w sources/wheel sources/*.tar.gz && rm -rf clone &&
        ls sources/wheel/dit_h-"$version"-py3-none-*.whl && pip/bin/pip install sources/wheel/*.whl && installed sources
)
pip_types() { # the package is typed: it is sound in itself, a right program passes, and a wrong argument is named
    blocks python right && cp right2 right.py && { cat right1 && echo '    model.add_lora(3)'; } >wrong.py &&
        pip/bin/mypy --ignore-missing-imports "$root/examples/python/dit.py" && pip/bin/mypy right.py && ! pip/bin/mypy wrong.py >told &&
        grep -q 'wrong.py:.*"add_lora".*incompatible type "int"' told && [ "$(grep -c error: told)" = 1 ]
}
csharp_compiles() {
    mcs -langversion:7 -warnaserror -out:csharp.exe "$prefix/share/dit/dit.cs" "$root/tests/csharp/test.cs" && mono csharp.exe layouts >csharp.layouts &&
        [ "$(wc -l <csharp.layouts)" -gt 100 ] && ! grep -v -x -F -f c.layouts csharp.layouts
}
csharp_runs() { mono csharp.exe "$tests" >csharp.log && cat csharp.log && grep -q '^1[0-9][0-9] checks' csharp.log; }
fetched() { # what docs/languages.md says of FetchContent, from a folder of this machine in the place of the repository's address
    rm -rf fetched && mkdir -p fetched/dit && cp "$root/dit.h" "$root/CMakeLists.txt" fetched/dit/ && cp "$examples/pictures.cpp" fetched/ &&
        sed -n '/^```cmake$/,/^```$/p' "$root/docs/languages.md" | grep -v '^```' | sed "s|GIT_REPOSITORY .* GIT_TAG [a-z]*|URL $work/fetched/dit|" >fetched/lines || return 1
    grep -q "URL $work" fetched/lines && { printf '%s\n' 'cmake_minimum_required(VERSION 3.16)' 'project(pictures C CXX)' 'set(CMAKE_CXX_STANDARD 17)'
        cat fetched/lines; } >fetched/CMakeLists.txt && (unset LD_LIBRARY_PATH PKG_CONFIG_PATH && cmake -S fetched -B fetched/build && cmake --build fetched/build) &&
        fetched/build/pictures "$tests" "a fox" 13 && picture picture-13.ppm
}
cmake_installs() { # what CMakeLists.txt installs, static and shared, is found by find_package of its minor version; a subproject installs nothing
    cp -R cmake cmake-of && sed -i 's/dit 0\.[0-9]*/dit 0.2/' cmake-of/CMakeLists.txt && rm -rf cmake-of/build cmake-of/older || return 1
    for shared in OFF ON; do
        mkdir -p own-$shared && cmake -S nested/dit -B own-$shared/build -DBUILD_SHARED_LIBS=$shared -DCMAKE_INSTALL_PREFIX="$work/own-$shared/prefix" &&
            cmake --build own-$shared/build && cmake --install own-$shared/build && ! grep -r "$work/nested" own-$shared/prefix/lib/cmake || return 1
        (unset LD_LIBRARY_PATH && cmake -S cmake-of -B cmake-of/$shared -DCMAKE_PREFIX_PATH="$work/own-$shared/prefix" && cmake --build cmake-of/$shared &&
            rm -f picture-14.ppm && cmake-of/$shared/pictures "$tests" "a fox" 14) && picture picture-14.ppm || return 1
    done
    ! cmake --install nested/ON --prefix "$work/nothing" | grep -q dit.h && sed -i 's/dit 0\.2/dit 0.1/' cmake-of/CMakeLists.txt &&
        ! cmake -S cmake-of -B cmake-of/older -DCMAKE_PREFIX_PATH="$work/own-ON/prefix"
}
clone() { # a clone with what a package is made of, and nothing else
    rm -rf "$1" && mkdir -p "$1/tools/package" && cp "$root/dit.h" "$root/CMakeLists.txt" "$root/LICENSE" "$1/" && cp -R "$root/tools/package/conan" "$root/tools/package/vcpkg" "$1/tools/package/"
}
conan_creates() ( # the recipe's package, static and shared; Vulkan's headers are the system's, or those of a package
    clone conan-clone && rm -rf conan-home && export CONAN_HOME="$work/conan-home" && mkdir -p headers && cat >headers/conanfile.py <<'END'
import os
from conan import ConanFile
from conan.tools.files import copy
class Headers(ConanFile):
    name, version, package_type = "vulkan-headers", "1.3.239", "header-library"
    def package(self):
        for folder in ("vulkan", "vk_video"):
            copy(self, "*", "/usr/include/" + folder, os.path.join(self.package_folder, "include", folder))
END
    recipe=conan-clone/tools/package/conan
    conan profile detect && conan create -nr $recipe -o 'dit/*:system_vulkan=True' >static.log 2>&1 && grep -qx 'dit [1-9][0-9]*' static.log &&
        ! conan create -nr $recipe -o 'dit/*:shared=True' && conan export-pkg -nr headers &&
        conan create -nr $recipe -o 'dit/*:shared=True' >shared.log 2>&1 && grep -qx 'dit [1-9][0-9]*' shared.log || { tail -n 20 static.log shared.log; exit 1; }
    library=$(find conan-home/p -path "*/p/lib/libdit.so.$version") && [ -e "$library" ] && find conan-home/p -path '*/p/lib/libdit.a' | grep . &&
        ! nm -D --defined-only "$library" | grep -v ' dit_' && [ -e "$(dirname "$library")/../licenses/LICENSE" ] && [ -e "$(dirname "$library")/../include/dit.h" ]
)
vcpkg_installs() { # the overlay port, with Vulkan's headers from the system in the place of vcpkg's port, which is fetched
    clone vcpkg-clone && mkdir -p ports/vulkan-headers && printf '{"name": "vulkan-headers", "version": "1.3.239"}\n' >ports/vulkan-headers/vcpkg.json &&
        printf 'set(VCPKG_POLICY_EMPTY_PACKAGE enabled)\n' >ports/vulkan-headers/portfile.cmake &&
        vcpkg install dit --classic --no-binarycaching --overlay-ports=vcpkg-clone/tools/package/vcpkg --overlay-ports=ports --x-install-root="$work/vcpkg" || return 1
    triplet=$(ls vcpkg | grep linux) && (unset LD_LIBRARY_PATH && cmake -S two -B two/vcpkg -DCMAKE_CXX_STANDARD=17 -DCMAKE_PREFIX_PATH="$work/vcpkg/$triplet" && cmake --build two/vcpkg &&
        rm -f picture-11.ppm && two/vcpkg/pictures "$tests" "a fox" 11) && picture picture-11.ppm && [ -e "vcpkg/$triplet/share/dit/copyright" ]
}
vcpkg_port() { # without vcpkg: the port's commands, each as CMake alone does it, and a program that finds what they install
    clone vcpkg-clone && cmake -DPORT=dit -DPACKAGES="$work/vcpkg-packages" -P "$root/tests/support/vcpkg.cmake" vcpkg-clone/tools/package/vcpkg/dit/portfile.cmake &&
        (cd vcpkg-packages && find . -type f | sort) >port.files && for file in include/dit.h lib/libdit.a share/dit/ditConfig.cmake share/dit/usage share/dit/copyright; do
            grep -qx "./$file" port.files || { echo "no $file in:"; cat port.files; return 1; }; done
    (unset LD_LIBRARY_PATH && cmake -S two -B two/port -DCMAKE_CXX_STANDARD=17 -Ddit_DIR="$work/vcpkg-packages/share/dit" && cmake --build two/port &&
        rm -f picture-11.ppm && two/port/pictures "$tests" "a fox" 11) && picture picture-11.ppm
}
port_version() { grep -q "\"version\": \"$version\"" "$root/tools/package/vcpkg/dit/vcpkg.json"; }
meson_project() { # meson_project FOLDER: a program that wants dit, from the system or else as a subproject
    mkdir -p "$1" && cp "$examples/pictures.cpp" "$1/" &&
        printf '%s\n' "project('pictures', 'cpp', default_options: ['cpp_std=c++17'])" \
            "executable('pictures', 'pictures.cpp', dependencies: dependency('dit', version: '>=0.2', fallback: ['dit', 'dit_dep']))" >"$1/meson.build"
}
meson_installed() {
    meson_project meson && meson setup --wrap-mode=nofallback meson/build meson && ninja -C meson/build && meson/build/pictures "$tests" "a fox" 10 &&
        picture picture-10.ppm && readelf -d meson/build/pictures | grep -q 'NEEDED.*libdit'
}
meson_subproject() { # what a copy of this folder in subprojects/dit gives, without the prefix
    meson_project wrapped && mkdir -p wrapped/subprojects/dit && cp "$root/dit.h" "$root/meson.build" "$root/LICENSE" wrapped/subprojects/dit/ &&
        PKG_CONFIG_PATH='' meson setup --buildtype=plain --wrap-mode=forcefallback wrapped/build wrapped && ninja -C wrapped/build &&
        wrapped/build/pictures "$tests" "a fox" 10 && cmp picture-10.ppm meson-10.ppm
}
meson_installs() { # the library and its pkg-config file, as make install-lib has them
    mkdir -p alone && cp "$root/dit.h" "$root/meson.build" alone/ && meson setup --buildtype=plain --prefix "$work/own" --libdir lib alone/build alone &&
        meson install -C alone/build && for path in include/dit.h lib/libdit.so "lib/$(readlink "$prefix/lib/libdit.so")" lib/pkgconfig/dit.pc; do [ -e "$work/own/$path" ] || return 1; done &&
        [ "$(PKG_CONFIG_PATH=$work/own/lib/pkgconfig pkg-config --modversion dit)" = "$(pkg-config --modversion dit)" ]
}
meson_windows() { # the library has the name by which dit.cs and dit.py look for it
    printf '%s\n' '[binaries]' "c = 'x86_64-w64-mingw32-gcc'" "ar = 'x86_64-w64-mingw32-ar'" '[host_machine]' "system = 'windows'" "cpu_family = 'x86_64'" \
        "cpu = 'x86_64'" "endian = 'little'" >windows.ini && meson setup --cross-file windows.ini alone/windows alone &&
        meson introspect --targets alone/windows | grep -q '/dit\.dll"'
}
have pkg-config 'C++' && check 'C++ by pkg-config' cxx
have cmake 'CMake' && check 'C++ by CMake, and another minor version refused' by_cmake
version=$(sed -n 's/^Version: //p' "$prefix/lib/pkgconfig/dit.pc")
have cmake 'CMake' && check 'C++ by CMake with dit as a subproject' cmake_subproject
have cmake 'CMake' && check 'C++ by CMake with FetchContent, as docs/languages.md says' fetched
have cmake 'CMake' && check 'C++ by what CMakeLists.txt installs' cmake_installs
check "vcpkg's port has the version of dit.h" port_version
have cmake 'LIBDIR' && have pkg-config 'LIBDIR' && check 'LIBDIR, DESTDIR, and a folder with two names' libdir
have pkg-config 'a prefix with spaces' && check 'a prefix with spaces, and one with ~' spaces
if have cmake 'vcpkg'; then
    check "C++ by the commands of vcpkg's port" vcpkg_port
    have vcpkg 'vcpkg itself' && check 'C++ by vcpkg' vcpkg_installs
fi
if have python3 'Python'; then
    check "dit.py's structures are dit.h's" layouts
    [ "$(getconf LONG_BIT)" = 32 ] || check 'structs are those of version 0.2' recorded
    check 'Python finds its library' python_finds
    check 'pictures by Python' python
    check 'Python closes in any order' python_lifetimes
    check 'Python raises what its hooks raise' python_raises
    check 'Python gives pictures, prompts, parts and clips' python_more
    check 'Python has jobs, LoRAs, traces and frames' python_objects
    check 'each function of dit.h is in docs/languages.md, dit.py and dit.cs' functions
    check 'the Python of docs/languages.md and of dit.py runs' python_pages
    for interpreter in /usr/bin/python3 python3; do "$interpreter" -c 'import numpy' 2>/dev/null && break; done
    if "$interpreter" -c 'import numpy' 2>/dev/null; then check 'numpy arrays' numpy "$interpreter"; else echo 'skipped: numpy arrays: numpy is not installed'; fi
    if ! python3 -c 'import ensurepip' 2>/dev/null; then echo "skipped: pip: Python's ensurepip is not installed"
    elif pip_gets; then
        check 'pip installs dit_h from a clone, which draws what the program draws' pip_installs
        check 'pip installs dit_h from its source distribution' pip_sources
        if pip/bin/pip install -q mypy >/dev/null 2>&1; then check "the types of dit_h's functions" pip_types; else echo "skipped: types: mypy cannot be had"; fi
    else echo 'skipped: pip: its server cannot be reached'; fi
    if ! command -v conan >/dev/null && [ -d pip/backend ] && pip/bin/pip install -q conan >/dev/null 2>&1; then PATH=$PATH:$work/pip/bin; fi
    have conan 'Conan' && have cmake 'Conan' && check "C++ by Conan's recipe" conan_creates
    if have mcs 'C#' && have mono 'C#'; then
        check "dit.cs compiles, and its structures are dit.h's" csharp_compiles
        check 'pictures by C#' csharp_runs
        mono csharp.exe names >csharp.names
        check 'each function of dit.h is where docs/languages.md says in C#' functions "$work/csharp.names"
        check 'the C# of docs/languages.md and of dit.cs runs' csharp_pages
    fi
fi
if have meson 'Meson' && have ninja 'Meson' && have pkg-config 'Meson'; then
    check 'Meson with the installed library' meson_installed
    cp picture-10.ppm meson-10.ppm
    check 'Meson with dit as a subproject' meson_subproject
    check 'Meson installs the library' meson_installs
    have x86_64-w64-mingw32-gcc 'Meson for Windows' && check "Meson's library for Windows is dit.dll" meson_windows
fi

echo "packages: $passed passed, $failed failed"
[ $failed = 0 ]
