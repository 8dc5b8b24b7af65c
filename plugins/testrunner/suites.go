package main

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/fermenthq/ferment/plugins/internal/program"
	"github.com/fermenthq/ferment/plugins/testrunner/internal/suite"
	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// try serves :code/test and :code/patch-verdict.
func (r *runner) try(ctx context.Context, input edn.Value) (edn.Value, error) {
	verdict := sdk.CallFrom(ctx).Intent == "code/patch-verdict"
	name := "req/code.test"
	if verdict {
		name = "req/code.patch-verdict"
	}
	in, err := r.read(name, input)
	if err != nil {
		return edn.Nil(), err
	}
	if in.Patch == "" {
		t, err := r.test(ctx, in)
		if err != nil {
			return edn.Nil(), err
		}
		return t.value(), nil
	}
	return r.tryPatch(ctx, in, verdict)
}

// tryPatch runs the tests on a patched copy. A patch that does not apply counts
// as a suite that did not pass. The copy of a verdict is part of its answer and
// exists until the run ends.
func (r *runner) tryPatch(ctx context.Context, in request, verdict bool) (edn.Value, error) {
	a, err := r.apply(ctx, in)
	if err != nil {
		return edn.Nil(), err
	}
	t := tested{result: suite.Result{Reason: "the patch does not apply"}}
	if a.refusal == nil {
		in.Dir = a.copy.Dir
		t, err = r.test(ctx, in)
		if err != nil || !verdict {
			err = errors.Join(err, r.store.Drop(sdk.CallFrom(ctx).Run, a.copy.Dir))
		}
		if err != nil {
			return edn.Nil(), err
		}
	}
	if verdict {
		// The reason of a patch that does not apply is more precise than that
		// of the tests, so the patch is merged last.
		out := t.value().Merge(a.value())
		return out.AssocKey("accepted?", edn.Bool(a.refusal == nil && t.result.OK)), nil
	}
	out := t.value().AssocKey("patch/applies?", edn.Bool(a.refusal == nil))
	if a.refusal != nil {
		out = out.AssocKey("reason", edn.Text(a.refusal.Error()))
	}
	return out, nil
}

// tested is the result of a suite, which says why if the suite was not run.
type tested struct {
	command []string
	result  suite.Result
}

// answerTime is reserved at the end of a call for sending the answer: a suite
// that is cut by the deadline of its call is a failed test result too. A call
// with less than leastTime ends without a result.
const (
	answerTime = 500 * time.Millisecond
	leastTime  = 2 * answerTime
)

func (r *runner) test(ctx context.Context, in request) (tested, error) {
	run := sdk.CallFrom(ctx).Run
	tmp, err := r.store.Dir(run, "tmp")
	if err != nil {
		return tested{}, err
	}
	report := filepath.Join(tmp, "report.xml")
	spec, err := r.command(in, report)
	if err != nil {
		return tested{}, errors.Join(err, r.store.Drop(run, tmp))
	}
	spec.Env = append(spec.Env, "TMPDIR="+tmp, "PWD="+spec.Dir)
	if spec.Format == suite.JUnit {
		spec.Report = report
		spec.Env = append(spec.Env, suite.ReportVariable+"="+report)
	}
	spec.Timeout = in.timeout(r.cfg.Timeout)
	if deadline, ok := ctx.Deadline(); ok {
		if left := time.Until(deadline); left > leastTime {
			spec.Timeout = min(spec.Timeout, left-answerTime)
		}
	}
	spec.Memory = r.cfg.Memory
	if in.Memory >= 0 {
		spec.Memory = in.Memory
	}
	result, err := suite.Run(ctx, spec)
	if derr := r.store.Drop(run, tmp); err == nil {
		err = derr
	}
	var start *suite.StartError
	if errors.As(err, &start) {
		return tested{}, startError(start, in)
	}
	if err != nil {
		return tested{}, err
	}
	return tested{command: append([]string{spec.Path}, spec.Args...), result: result}, nil
}

func startError(err *suite.StartError, in request) error {
	if len(in.Command) == 0 {
		return contract.Errorf("effects/runtime-missing", "test %s: %w", in.Dir, err).
			WithHint("install Go, or set PATH in env of the plugin")
	}
	return contract.Errorf("input/invalid", "command: %w", err).WithDetail("path", edn.Vector(edn.K("command")))
}

// command returns the command to run and its output format. report is the path for a JUnit report.
func (r *runner) command(in request, report string) (suite.Spec, error) {
	command, format := in.Command, in.Format
	if len(command) == 0 {
		if format != "" && format != suite.GoJSON {
			return suite.Spec{}, refused("command", edn.Nil(), "a command for the format :"+string(format))
		}
		if !suite.HasGoModule(in.Dir) {
			return suite.Spec{}, refused("command", edn.Nil(), "a command, because :dir and its parents have no go.mod")
		}
		command = []string{"go", "test"}
		if len(in.Packages) == 0 {
			command = append(command, "./...")
		}
	}
	switch {
	case suite.IsGoTest(command) && (format == "" || format == suite.GoJSON):
		format = suite.GoJSON
		command = suite.GoTest(command, in.Packages)
	default:
		command, format = suite.Detect(command, format, report)
		command = append(append([]string(nil), command...), in.Packages...)
	}
	path, err := program.Find(command[0], in.Dir, r.env)
	if err != nil && len(in.Command) > 0 {
		return suite.Spec{}, refused("command", edn.Text(command[0]),
			"a program that can be found in :dir or PATH ("+reasonOf(err)+")")
	}
	if err != nil {
		return suite.Spec{}, contract.Errorf("effects/runtime-missing",
			"find the go command in the PATH of the tests: %w", err).
			WithHint("install Go, or set PATH in env of the plugin")
	}
	return suite.Spec{
		Dir:    in.Dir,
		Path:   path,
		Args:   command[1:],
		Env:    append([]string(nil), r.env...),
		Format: format,
		Reaper: r.reaper,
	}, nil
}

func (t *tested) value() edn.Value {
	r := &t.result
	var b edn.MapBuilder
	b.Key("tests/pass?", edn.Bool(r.OK))
	b.OptText("reason", r.Reason)
	tests := make([]edn.Value, len(r.Tests))
	for i := range r.Tests {
		tests[i] = testValue(&r.Tests[i])
	}
	b.Key("tests", edn.Vector(tests...))
	if r.Omitted > 0 {
		b.Key("tests-omitted", edn.Int(int64(r.Omitted)))
	}
	b.Key("passed", edn.Int(int64(r.Passed)))
	b.Key("failed", edn.Int(int64(r.Failed)))
	b.Key("skipped", edn.Int(int64(r.Skipped)))
	b.Key("build-failed?", edn.Bool(r.BuildFailed))
	b.Key("timed-out?", edn.Bool(r.TimedOut))
	b.Key("ms", edn.Int(r.Took.Milliseconds()))
	if t.command != nil {
		b.Key("exit", edn.Int(int64(r.Exit)))
		b.Key("ended", edn.Text(r.Ended))
		words := make([]edn.Value, len(t.command))
		for i, word := range t.command {
			words[i] = edn.Text(word)
		}
		words[0] = edn.Text(filepath.Base(t.command[0]))
		b.Key("command", edn.Vector(words...))
	}
	b.OptText("output", r.Output)
	return b.Map()
}

func testValue(t *suite.Test) edn.Value {
	var b edn.MapBuilder
	b.Key("name", edn.Text(t.Name))
	b.OptText("package", t.Package)
	b.Key("status", edn.K(string(t.Status)))
	b.Key("ms", edn.Int(t.Took.Milliseconds()))
	b.OptText("output", t.Output)
	return b.Map()
}
