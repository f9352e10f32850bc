#!/bin/sh
# tests/tools/browser.sh URL FOLDER: headless Chromium opens the page of dit --serve, driven by chromedriver (WebDriver, by
# curl). It draws a picture, finds it in the gallery, sees a refusal in words, and stops a long picture. Exit code 0: all
# of it works.
set -u
url=$1 work=$2 driver=http://127.0.0.1:${3:-9517}
chromedriver --port="${driver##*:}" >"$work/chromedriver.log" 2>&1 &
pid=$!
session=
end() {
    [ -z "$session" ] || curl -s -m 10 -X DELETE "$driver/session/$session" >/dev/null
    kill $pid
}
trap end EXIT
post() { curl -s -m 60 -H 'Content-Type: application/json' -d "$2" "$driver$1"; }
for _ in 1 2 3 4 5 6 7 8 9 10; do
    curl -s -m 5 "$driver/status" 2>/dev/null | grep -q '"ready":true' && break
    sleep 1
done
session=$(post /session '{"capabilities":{"alwaysMatch":{"goog:chromeOptions":{"args":["--headless=new","--no-sandbox","--disable-gpu",
    "--disable-dev-shm-usage","--user-data-dir='"$work"'/profile"]}}}}' | sed -n 's/.*"sessionId":"\([^"]*\)".*/\1/p')
[ -n "$session" ] || { echo "no browser: $(tail -n 3 "$work/chromedriver.log")"; exit 1; }
run() { # run SCRIPT: what it returns
    post "/session/$session/execute/sync" "{\"script\":\"$1\",\"args\":[]}" | sed 's/^{"value":\(.*\)}$/\1/'
}
wait_for() { # wait_for WHAT SCRIPT: until it returns true
    for _ in $(seq 150); do
        [ "$(run "$2")" != true ] || return 0
        sleep 0.2
    done
    echo "never: $1; the page says $(run "return document.getElementById('said').textContent") $(run "return document.body.innerText")"
    exit 1
}
set_to() { run "document.getElementById('$1').value = '$2'" >/dev/null; }
pictures="document.querySelectorAll('#gallery img')"
post "/session/$session/url" "{\"url\":\"$url\"}" >/dev/null
wait_for 'samplers are listed' "return document.querySelectorAll('#sampler_name option').length > 5"
before=$(run "return $pictures.length")
set_to prompt 'a red fox'
set_to seed 7
set_to width 32
set_to height 32
run "document.getElementById('draw').click()" >/dev/null
wait_for 'a picture is drawn' "return $pictures.length > $before && $pictures[0].naturalWidth == 32 && $pictures[0].title.startsWith('a red fox')"
set_to width 33
run "document.getElementById('form').noValidate = true; document.getElementById('draw').click()" >/dev/null
wait_for 'a refusal is shown' "return document.getElementById('said').textContent.includes('nearest valid value is 32')"
set_to width 96
set_to height 96
set_to steps 400
set_to sampler_name euler
run "document.getElementById('draw').click()" >/dev/null
wait_for 'progress is shown' "return document.getElementById('bar').value > 0.01"
wait_for 'a preview is shown' "return !document.getElementById('preview').hidden && document.getElementById('preview').naturalWidth == 96"
run "document.getElementById('stop').click()" >/dev/null
wait_for 'it stops' "return !document.getElementById('draw').disabled"
curl -s -m 20 "$driver/session/$session/screenshot" | sed 's/^{"value":"\(.*\)"}$/\1/' | base64 -d >"$work/page.png" 2>/dev/null
echo 'the page works'
