//go:build external

package report

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// browser is a page that is opened in Chromium.
type browser struct {
	t    *testing.T
	page []byte
	dir  string
}

func open(t *testing.T, page []byte) *browser {
	t.Helper()
	_, err := exec.LookPath("chromium")
	require.NoError(t, err, "chromium is not installed")
	return &browser{t: t, page: page, dir: t.TempDir()}
}

// run opens the page with a script behind its own one. The clock of the page
// jumps forward, so nothing is waited for.
func (b *browser) run(script, hash string, args ...string) string {
	b.t.Helper()
	page := bytes.Replace(b.page, []byte("</body>"), []byte("<script>"+script+"</script></body>"), 1)
	if slices.Contains(args, "--dump-dom") { // then the browser paints nothing, so it never calls back
		page = bytes.Replace(page, []byte("<head>"), []byte("<head><script>requestAnimationFrame = f => setTimeout(f, 16)</script>"), 1)
	}
	file := filepath.Join(b.dir, "page.html")
	require.NoError(b.t, os.WriteFile(file, page, 0o644))
	args = append([]string{
		"--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-device-scale-factor=1", "--no-first-run",
		"--disable-dev-shm-usage", "--disable-background-networking", "--user-data-dir=" + filepath.Join(b.dir, "profile"),
		"--window-size=1200,800", "--virtual-time-budget=4000",
	}, args...)
	cmd := exec.Command("chromium", append(args, "file://"+file+hash)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(b.t, err, stderr.String())
	return string(out)
}

// picture is the page as a person sees it. With FERMENT_SCREENSHOTS it is kept
// in that directory.
func (b *browser) picture(name, script, hash string, args ...string) image.Image {
	b.t.Helper()
	file := filepath.Join(b.dir, name+".png")
	b.run(script, hash, append(args, "--screenshot="+file)...)
	data, err := os.ReadFile(file)
	require.NoError(b.t, err)
	if keep := os.Getenv("FERMENT_SCREENSHOTS"); keep != "" {
		require.NoError(b.t, os.WriteFile(filepath.Join(keep, name+".png"), data, 0o644))
	}
	img, err := png.Decode(bytes.NewReader(data))
	require.NoError(b.t, err)
	return img
}

// share returns the part of the picture that has a colour, in per mille.
func share(img image.Image, hex uint32) int {
	want, n := color.RGBA{uint8(hex >> 16), uint8(hex >> 8), uint8(hex), 0xff}, 0
	box := img.Bounds()
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			if color.RGBAModel.Convert(img.At(x, y)) == want {
				n++
			}
		}
	}
	return n * 1000 / (box.Dx() * box.Dy())
}

// The map shows the states as colours, in a light and in a dark theme. Half of
// the example has a fresh frame, a stale file lies in src.
func TestGraphInABrowser(t *testing.T) {
	page, err := Graph(collect(t, example(t, 1)), "Example")
	require.NoError(t, err)
	b := open(t, page)
	light := b.picture("light", "", "")
	for name, hex := range map[string]uint32{"fresh": 0x6fbf9f, "none": 0xd6dae0, "stale": 0xf0b44c} {
		assert.Greater(t, share(light, hex), 20, name)
	}
	assert.Zero(t, share(light, 0x2f7d5f))
	dark := b.picture("dark", "", "", "--blink-settings=preferredColorScheme=0")
	for name, hex := range map[string]uint32{"fresh": 0x2f7d5f, "none": 0x3d444f, "stale": 0xa8741a, "page": 0x14171c} {
		assert.Greater(t, share(dark, hex), 20, name)
	}
	docs := b.picture("docs", "", "#docs")
	assert.Less(t, share(docs, 0xf0b44c), 5, "the stale file is not in docs")
	assert.Greater(t, share(docs, 0xd6dae0), 500, "a file without a frame fills the map")
}

// A click and the keyboard zoom, the choice of a type changes the colours, and
// what is under the pointer is described in words.
func TestGraphIsOperated(t *testing.T) {
	page, err := Graph(collect(t, example(t, 1)), "Example")
	require.NoError(t, err)
	b := open(t, page)
	script := `
const map = document.getElementById("map"), log = [], at = id => document.getElementById(id).textContent;
const frame = () => { document.body.dataset.log = log.join("\n"); return new Promise(r => setTimeout(r, 100)); };
const key = async k => { map.dispatchEvent(new KeyboardEvent("keydown", {key: k, bubbles: true, cancelable: true})); await frame(); };
const mouse = async (type, x, y) => { const r = map.getBoundingClientRect();
  map.dispatchEvent(new MouseEvent(type, {clientX: r.left + x * r.width, clientY: r.top + y * r.height, bubbles: true})); await frame(); };
(async () => {
  await frame(); log.push(at("summary"), at("legend"), at("crumbs"));
  await mouse("mousemove", .1, .6); log.push(at("detail"));
  await mouse("click", .1, .04); log.push(at("crumbs") + " " + location.hash);
  await key("ArrowRight"); log.push(at("detail"));
  await key("ArrowRight"); log.push(at("detail"));
  await key("Escape"); log.push(at("crumbs"));
  await key("ArrowDown"); await key("ArrowRight"); log.push(at("detail"));
  await key("ArrowUp"); await key("Home"); log.push(at("crumbs"));
  const type = document.getElementById("type"); type.value = 2; type.dispatchEvent(new Event("change")); await frame();
  log.push(type.selectedOptions[0].text + ": " + at("summary"));
})().catch(e => log.push(e)).then(() => document.body.dataset.log = log.join("\n"));`
	dom := b.run(script, "", "--dump-dom")
	found := regexp.MustCompile(`(?s)data-log="([^"]*)"`).FindStringSubmatch(dom)
	require.NotNil(t, found, "the script did not end: %s", dom[max(0, len(dom)-300):])
	assert.Equal(t, strings.TrimSpace(`
7 nodes, 71.4% with a frame, 1 stale
no frame (2)fresh (4)stale (1)marked invalid (0)
.
src/a.go: 9 B; context-docs fresh, facts fresh, note fresh
./src #src
src/a.go: 9 B; context-docs fresh, facts fresh, note fresh
src/b.go: 9 B; context-docs fresh, note stale
.
src/b.go: 9 B; context-docs fresh, note stale
.
digest: 7 nodes, 28.6% with a frame, 0 stale`), found[1])
}

// 50,000 files are drawn, and those that are too small to be seen are folded.
func TestLargeGraphInABrowser(t *testing.T) {
	page, err := Graph(large(50_000), "50,000 files")
	require.NoError(t, err)
	assert.Less(t, len(page), 3<<20)
	b := open(t, page)
	img := b.picture("large", "", "")
	for name, hex := range map[string]uint32{"fresh": 0x6fbf9f, "stale": 0xf0b44c} {
		assert.Greater(t, share(img, hex), 5, name)
	}
	b.picture("large-dark", "", "", "--blink-settings=preferredColorScheme=0")
	b.picture("large-part", "", "#part07")
	dom := b.run("", "", "--dump-dom")
	drawn := regexp.MustCompile(`data-drawn="(\d+)"`).FindStringSubmatch(dom)
	require.NotNil(t, drawn)
	t.Logf("%d bytes, %s rectangles", len(page), drawn[1])
	assert.NotEqual(t, "0", drawn[1])
}
