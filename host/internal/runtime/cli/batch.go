package cli

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/runtime/cli/exit"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// batchFlags are the flags of batch.
type batchFlags struct {
	callFlags
	intent      string
	plan        string
	name        string
	file        string
	concurrency int
	wait        time.Duration
	retryFailed bool
}

// maxConcurrency is the maximum number of concurrent runs of a batch.
const maxConcurrency = 256

func (c *command) batchCommand() *cobra.Command {
	var f batchFlags
	cmd := &cobra.Command{
		Use:   "batch INPUTS",
		Short: "run an intent or a plan once per line of a file",
		Long: "batch has the daemon execute one run per line of INPUTS, and prints one result per line, in the order of the\n" +
			"lines: :line, :run, and :out or :error, as JSON or with --edn as EDN. A line that fails does not stop the\n" +
			"others. Exit codes: 0 all lines were accepted, 1 a line failed.\n\n" +
			"A line is a map: the input of the intent, or the bindings of the plan. With --bind NAME it may be any value,\n" +
			"which gets that name. Lines are JSON in a file named .json, .jsonl or .ndjson, EDN in a file named .edn, and\n" +
			"strings in a file named .txt; elsewhere a line that starts like a JSON object is JSON. Empty lines are\n" +
			"skipped.\n\n" +
			"The same command continues a batch that was interrupted or killed, also after a crash of the daemon: the\n" +
			"results of finished lines are printed again without being executed or paid again, and runs in progress are\n" +
			"awaited. This holds for the same file, options and directory, as long as the daemon keeps idempotency keys\n" +
			"(store.retain.key_window). With --name the lines may change: only those that are new or different are\n" +
			"executed. A failed line whose error is retryable goes on where it failed, at most 5 times; others keep\n" +
			"their error, unless --retry-failed is set.",
		Example: `  ferment batch inputs.jsonl --intent text/render --concurrency 8
  ferment batch inputs.jsonl --plan plan.edn --file results.jsonl
  ferment batch articles.txt --intent context/summarize --bind text --bind max-sentences=1 --edn
  ferment batch - --intent text/render --name monday --retry-failed < inputs.jsonl`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := c.newBatch(args[0], &f)
			if err != nil {
				return err
			}
			return b.perform(cmd.Context(), args[0])
		},
	}
	cmd.Flags().StringVar(&f.intent, "intent", "", "intent to call")
	cmd.Flags().StringVar(&f.plan, "plan", "", "file with the plan to evaluate instead of an intent")
	cmd.Flags().StringArrayVar(&f.bind, "bind", nil,
		"key of every input or binding of the plan, as NAME=EDN; NAME alone is the key of the line; may be repeated")
	f.registerRequest(cmd)
	cmd.Flags().IntVar(&f.concurrency, "concurrency", 4, "maximum number of concurrent runs")
	cmd.Flags().StringVar(&f.name, "name", "", "name of the batch (default: a hash of INPUTS)")
	cmd.Flags().BoolVar(&f.retryFailed, "retry-failed", false, "execute lines again that failed in an earlier command")
	cmd.Flags().StringVar(&f.file, "file", "", "write the results to this file, once all are known")
	spanFlag(cmd.Flags(), &f.wait, "wait", time.Minute,
		"how long to retry while the daemon is down or refuses runs, such as during a restart")
	return cmd
}

// batch is one execution of the command batch.
type batch struct {
	*command
	flags    *batchFlags
	name     string
	total    int       // number of lines; 0 if unknown
	intent   string    // of all requests
	plan     edn.Value // nil without --plan
	isJSON   bool      // the plan is in JSON
	whole    edn.Value // key for the value of a line; nil: the line is a map
	fixed    edn.Value // map of the keys that all lines have
	link     *daemonLink
	results  io.Writer
	progress batchProgress
	tally    batchTally

	mu   sync.Mutex
	seen map[string]int // number of lines with a request, of a batch with --name
}

// newBatch checks the command line and reads the plan.
func (c *command) newBatch(inputs string, f *batchFlags) (*batch, error) {
	b := &batch{command: c, flags: f, name: f.name, intent: strings.TrimPrefix(f.intent, ":"), results: c.env.Stdout}
	switch {
	case (f.intent == "") == (f.plan == ""):
		return nil, usagef("batch needs --intent NS/NAME or --plan FILE, and not both")
	case f.intent != "" && !intentName.MatchString(f.intent):
		return nil, usagef("--intent %s: expected NS/NAME, such as chess/best-move", f.intent)
	case f.concurrency < 1 || f.concurrency > maxConcurrency:
		return nil, usagef("--concurrency %d: expected 1 to %d", f.concurrency, maxConcurrency)
	case f.wait < 0:
		return nil, usagef("--wait %s: expected a time such as 60s, or 0s", f.wait)
	case len(f.name) > 200:
		return nil, usagef("--name has %d bytes, expected at most 200", len(f.name))
	}
	if err := b.readBindings(); err != nil {
		return nil, err
	}
	if err := b.readPlan(); err != nil {
		return nil, err
	}
	return b, b.measure(inputs)
}

// readBindings separates the key for a line from the keys that all lines have.
func (b *batch) readBindings() error {
	var pairs []string
	for _, pair := range b.flags.bind {
		if strings.Contains(pair, "=") {
			pairs = append(pairs, pair)
			continue
		}
		key, err := edn.Keyword(strings.TrimPrefix(pair, ":"))
		if err != nil {
			return usagef("--bind %s: expected NAME=EDN, or NAME for the value of the line", pair)
		}
		if !b.whole.IsNil() {
			return usagef("--bind %s: the value of the line already has the name %s", pair, plain(b.whole))
		}
		b.whole = key
	}
	var err error
	b.fixed, err = bound(pairs, edn.Nil())
	return err
}

func (b *batch) readPlan() error {
	if b.flags.plan == "" {
		return nil
	}
	source, positions, err := b.command.readPlan(b.flags.plan)
	if err != nil {
		return err
	}
	if !isPlan(source) {
		_, findings := plan.Parse(source, positions)
		return b.refusal(b.flags.plan, positions, findings)
	}
	b.plan, b.intent, b.isJSON = source, act.PlanIntent, isJSONFile(b.flags.plan)
	return nil
}

// measure counts the lines of a file. A batch without a name gets their hash as its name.
func (b *batch) measure(inputs string) error {
	info, err := os.Stat(b.path(inputs))
	if inputs == "-" || err == nil && !info.Mode().IsRegular() && !info.IsDir() { // it can be read only once
		if b.name == "" {
			return usagef("inputs that are not in a file need --name, by which the same command finds their results again")
		}
		return nil
	}
	f, err := b.openInputs(inputs)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	hash := sha256.New()
	err = eachLine(io.TeeReader(f, hash), func(int, []byte) bool {
		b.total++
		return b.ctx.Err() == nil
	})
	if err != nil {
		return &fileError{err: fmt.Errorf("read %s: %w", inputs, cause(err))}
	}
	if b.name == "" {
		b.name = hex.EncodeToString(hash.Sum(nil)[:8])
	}
	return context.Cause(b.ctx)
}

func (b *batch) openInputs(name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(b.env.Stdin), nil
	}
	f, err := os.Open(b.path(name))
	if err != nil {
		return nil, &fileError{err: fmt.Errorf("read %s: %w", name, cause(err))}
	}
	return f, nil
}

// eachLine calls do with the number and the text of each line that is not empty, until do returns
// false. If a line exceeds the limit of requests, it passes only a part, which exceeds it too.
func eachLine(in io.Reader, do func(number int, text []byte) bool) error {
	lines := bufio.NewReaderSize(in, 64<<10)
	for number := 1; ; number++ {
		var text []byte
		part, err := lines.ReadSlice('\n')
		for ; errors.Is(err, bufio.ErrBufferFull); part, err = lines.ReadSlice('\n') {
			if len(text) <= edn.Body.Bytes {
				text = append(text, part...)
			}
		}
		text = append(text, part...)
		if number == 1 {
			text = bytes.TrimPrefix(text, []byte("\ufeff"))
		}
		if text = bytes.TrimSpace(text); len(text) > 0 && !do(number, text) {
			return nil
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// parse reads the value of a line.
func (b *batch) parse(inputs string, text []byte) (v edn.Value, isJSON bool, err error) {
	switch strings.ToLower(filepath.Ext(inputs)) {
	case ".txt":
		if v, err = edn.String(string(text)); err != nil {
			err = contract.Errorf("invalid-request", "the line is not text: %w", err)
		}
		return v, false, err
	case ".json", ".jsonl", ".ndjson":
		isJSON = true
	case ".edn":
	default:
		isJSON = jsonObject.Match(text)
	}
	v, err = parseValue(inputs, text, isJSON)
	return v, isJSON, err
}

// request returns the request for the value of a line, without a key.
func (b *batch) request(v edn.Value) (edn.Value, error) {
	if !b.whole.IsNil() {
		v = edn.MustMap(b.whole, v)
	}
	if !v.IsMap() {
		return edn.Nil(), contract.Errorf("invalid-request", "the line is a %s, expected a map", v.Kind()).
			WithHint("add --bind NAME to give the value of each line a name")
	}
	v = v.Merge(b.fixed)
	if b.plan.IsNil() {
		return b.flags.apply(envelope(b.intent, v)), nil
	}
	if given := b.plan.Key("bindings"); given.IsMap() {
		v = given.Merge(v)
	}
	return b.flags.apply(envelope(b.intent, edn.MustMap(edn.K("plan"), b.plan, edn.K("bindings"), v))), nil
}

// placeOf returns what distinguishes lines with an equal request: the number of the line, and with
// --name, where other lines may be added or removed, its ordinal among them.
func (b *batch) placeOf(number int, request edn.Value) int {
	if b.flags.name == "" {
		return number
	}
	hash := edn.Hash(request)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.seen == nil {
		b.seen = map[string]int{}
	}
	b.seen[hash]++
	return b.seen[hash]
}

// key returns the idempotency key of a line. It depends on everything that determines the run,
// except for its deadline, on place (see placeOf) and on the number of earlier failed runs of the line.
func (b *batch) key(place int, request edn.Value, isJSON bool, failed int) string {
	return "batch-" + edn.Hash(edn.Vector(edn.Text(b.name), edn.Int(int64(place)), edn.Text(b.env.Dir),
		request.Dissoc(edn.K("deadline-ms")), edn.Bool(isJSON), edn.Int(int64(failed))))
}

// perform executes the batch and prints its results and a summary.
func (b *batch) perform(ctx context.Context, inputs string) (err error) {
	client, err := b.reach(ctx)
	if err != nil {
		return err
	}
	if client == nil {
		return b.noDaemon(ctx)
	}
	socket, dataDir := b.place(ctx)
	b.link = newDaemonLink(client, socket, dataDir, b.flags.wait)
	in, err := b.openInputs(inputs)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	var file *outFile
	if b.flags.file != "" {
		if file, err = b.createOut(b.flags.file, renameio.WithPermissions(0o644)); err != nil {
			return err
		}
		defer file.Close()
		b.results = file.Writer
	}
	b.tally.begun = time.Now()
	b.progress.start(b.ticks(), b.total)
	err = b.execute(ctx, inputs, in)
	b.clear()
	if err == nil && file != nil {
		err = file.Commit()
	}
	if told := b.summary(); told != nil {
		return told
	}
	switch {
	case err != nil && errors.Is(context.Cause(ctx), errInterrupted):
		b.problem(contract.Errorf("canceled", "interrupted after %d results", b.tally.lines).
			WithHint("the same command continues; the daemon finishes the runs in progress"))
		return quietError{exit.Interrupted}
	case err != nil:
		return err
	case b.tally.failed > 0:
		return quietError{exit.Negative}
	}
	return nil
}
