package sdk

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// recovered turns a panic into an error whose detail is the author's part of
// the stack, and logs the whole stack.
func (s *Service) recovered(op string, err *error) {
	p := recover()
	if p == nil {
		return
	}
	s.log.Error("panic", "op", op, "panic", fmt.Sprint(p), "stack", strings.TrimSpace(string(debug.Stack())))
	var lines []edn.Value
	for _, f := range authorFrames() {
		lines = append(lines, edn.Text(fmt.Sprintf("%s (%s:%d)", f.Function, f.File, f.Line)))
	}
	*err = contract.Errorf("runtime/invoke-failed", "%s: panic: %v", op, p).
		WithDetail("panic", edn.Text(fmt.Sprint(p))).
		WithDetail("stack", edn.Vector(lines...))
}

// maxFrames limits the frames in the detail; the log has all of them.
const maxFrames = 30

// authorFrames returns the frames of the panic that a deferred call of
// recovered sees, from the innermost frame of the author's code to the calling
// frame of the SDK. If there is no frame of the author, it returns all frames.
func authorFrames() []runtime.Frame {
	var counters [128]uintptr
	frames := runtime.CallersFrames(counters[:runtime.Callers(3, counters[:])])
	module := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		module = info.Main.Path
	}
	var all, own []runtime.Frame
	for more := true; more && len(own) < maxFrames; {
		var f runtime.Frame
		f, more = frames.Next()
		all = append(all, f)
		switch pkg := packageOf(f.Function); {
		case within(pkg, sdkPath) && len(own) > 0:
			return own
		case within(pkg, sdkPath), len(own) == 0 && standard(pkg, module):
		default:
			own = append(own, f)
		}
	}
	if len(own) == 0 {
		own = all[:min(len(all), maxFrames)]
	}
	return own
}

const sdkPath = "github.com/fermenthq/ferment/sdk"

// packageOf returns the import path of a function such as "a.b/c/d.(*T).M".
func packageOf(function string) string {
	slash := strings.LastIndexByte(function, '/') + 1
	if dot := strings.IndexByte(function[slash:], '.'); dot >= 0 {
		return function[:slash+dot]
	}
	return function
}

func within(pkg, module string) bool { return pkg == module || strings.HasPrefix(pkg, module+"/") }

// standard reports whether a package belongs to the standard library: the first
// element of its path has no dot.
func standard(pkg, module string) bool {
	head, _, _ := strings.Cut(pkg, "/")
	return pkg != "main" && !strings.Contains(head, ".") && (module == "" || !within(pkg, module))
}
