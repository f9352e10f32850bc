#!/bin/sh
# tests/godot.sh: `make godot` in Godot 4 of Debian unstable, on lavapipe: the picture in a window under Xvfb is the command
# line program's to the byte, with Vulkan and with OpenGL; failures are told and nothing crashes. Ends with `godot: N passed, N
# failed`, or says why it cannot run and leaves with 77. Part of `make test-all`.
set -u
work=$PWD/build/godot/test
passed=0 failed=0
rm -rf "$work" && mkdir -p "$work/screen"
trap 'kill $display 2>/dev/null' EXIT
display=

cannot() {
    echo "$1"
    exit 77
}
check() { # check TITLE COMMAND...: its log must hold no error of Godot's, of a script or of a sanitizer
    title=$1
    shift
    if "$@" >"$work/log" 2>&1 && ! grep -E 'ERROR|WARNING: (ObjectDB|.*leak)|crash|FAILED|fault:' "$work/log"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $title"
        tail -n 20 "$work/log" | sed 's/^/    | /'
    fi
}
godot() { timeout 300 sh tools/newest.sh godot --audio-driver Dummy "$@"; }

[ "$(uname -sm)" = "Linux x86_64" ] || cannot "Godot's packages are tried on x86-64 alone"
command -v Xvfb >/dev/null && command -v zip >/dev/null || cannot "it needs Xvfb and zip"
sh tools/newest.sh godot --headless --version >"$work/log" 2>&1 || cannot "Godot 4 cannot be had: $(tail -n 1 "$work/log")"
check 'make godot' make --no-print-directory godot build/dit

# the project as a user has it: the zip unpacked, then opened once by the editor
project=$work/project
mkdir -p "$project/models" && unzip -q build/godot/dit-godot.zip -d "$project" && cp tests/godot/* "$project/" && cp models/emoji-q8_0.gguf "$project/models/"
# An editor without a window that meets an extension for the first time may crash at its end, having done its work: godot#111048.
found_by_editor() { # found_by_editor PROJECT
    godot --headless --path "$1" --import
    grep -q dit.gdextension "$1/.godot/extension_list.cfg" && godot --headless --path "$1" --import
}
check 'the editor finds the extension' found_by_editor "$project"
check 'the editor finds it in the demo' found_by_editor build/godot/demo
sh tools/newest.sh beside-godot build/dit -q -m models/emoji-q8_0.gguf --prompt 'red heart, fluent style' -W 64 -H 64 --steps 4 --seed 7 -o "$work/wanted.png"

number=$((90 + $$ % 9))
Xvfb :$number -screen 0 800x600x24 -fbdir "$work/screen" >"$work/x.log" 2>&1 &
display=$!
export DISPLAY=:$number
sleep 1
on_screen() { # on_screen SAYS OPTION...
    says=$1
    shift
    godot --position 0,0 "$@" --path "$project" --script res://picture.gd -- "$work/wanted.png" "$work/screen/Xvfb_screen0" || return 1
    grep -q "$says" "$work/log"
}
check 'a picture with Vulkan' on_screen 'device of its own on llvmpipe.*: Godot.s device has no timeline' --rendering-method mobile
check 'a picture with OpenGL' on_screen 'good, ImageTexture' --rendering-method gl_compatibility --rendering-driver opengl3
# Godot's own device, which has what dit needs under a layer alone
check 'the layer' cc -std=c11 -Wall -Wextra -Werror -O1 -fPIC -shared -fvisibility=hidden tests/drivers/godot.c -o "$work/libfamilies.so" -pthread
mkdir -p "$work/data/vulkan/implicit_layer.d"
printf '{"file_format_version": "1.1.2", "layer": {"name": "VK_LAYER_DIT_families", "type": "GLOBAL", "library_path": "%s", "api_version": "1.4.0",
"implementation_version": "1", "description": "three queue families and timeline semaphores", "disable_environment": {"DIT_NO_FAMILIES": "1"}}}\n' \
    "$work/libfamilies.so" >"$work/data/vulkan/implicit_layer.d/families.json"
on_godots_device() {
    printf '[dit]\nuse_godots_device=true\n' >"$project/override.cfg"
    XDG_DATA_HOME=$work/data on_screen "works on Godot's device, on its queue family 1" --rendering-method mobile
    result=$?
    rm -f "$project/override.cfg"
    return $result
}
check "a picture on Godot's device" on_godots_device
check 'a picture without a window' godot --headless --path "$project" --script res://picture.gd -- "$work/wanted.png"
check 'failures' godot --headless --path "$project" --script res://failures.gd
check 'the end of the program while a picture is made' godot --headless --path "$project" --script res://failures.gd -- quit
demo() { # it paints by itself; the end of its window ends it at work
    godot --position 0,0 --rendering-method mobile --path build/godot/demo --quit-after 400
}
check 'the demo ends while it paints' demo

echo "godot: $passed passed, $failed failed"
[ $failed = 0 ]
