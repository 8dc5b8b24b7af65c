package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin"
	"github.com/fermenthq/ferment/sdk/edn"
)

// sentence returns the i-th of many different sentences.
func sentence(i int) string {
	subjects := []string{"The archive", "A courier", "Every reader", "The harbour", "One engineer", "The old mill", "Her colleague"}
	verbs := []string{"keeps", "measures", "forgets", "describes", "repairs", "questions"}
	objects := []string{"the ledger of the year", "a bridge over the river", "three letters without an address", "the sound of the machine", "what was promised in spring"}
	return fmt.Sprintf("%s number %d %s %s. ", subjects[i%len(subjects)], i, verbs[i%len(verbs)], objects[i%len(objects)])
}

func sentences(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(sentence(i))
	}
	return b.String()
}

func jobOf(intent string, input edn.Value) edn.Value {
	return edn.MustMap(edn.K("proto"), edn.Int(1), edn.K("trace"), edn.MustMap(edn.K("id"), edn.Text("bench")),
		edn.K("task"), edn.MustMap(edn.K("intent"), edn.K(intent)), edn.K("input"), input)
}

// embedded compares the text jobs that need no model with a plugin call that returns as many bytes
// (EMB-008).
func embedded(p pace) ([]row, error) {
	program, err := filepath.Abs(programs + "/plugins/text")
	if err != nil {
		return nil, err
	}
	text, err := startPlugin(plugin.DefaultSettings("text", program), "text/template", "text/classifier", "text/extractive")
	if err != nil {
		return nil, err
	}
	defer text.close()
	hop, err := startAlone()
	if err != nil {
		return nil, err
	}
	defer hop.close()
	ctx := context.Background()
	words := sentences(80)
	template := "Dear {{name}}, {{#lines}}{{text}} {{/lines}}" + words[:3<<10]
	lines := make([]edn.Value, 20)
	for i := range lines {
		lines[i] = edn.MustMap(edn.K("text"), edn.Text(sentence(i)))
	}
	var rows []row
	for _, job := range []struct {
		work, capability string
		request          edn.Value
		goal             float64
	}{
		{"render 4 KiB", "text/template", jobOf("text/render", edn.MustMap(edn.K("template"), edn.Text(template),
			edn.K("data"), edn.MustMap(edn.K("name"), edn.Text("reader"), edn.K("lines"), edn.Vector(lines...)))), 1.5},
		{"classify 2 KiB", "text/classifier", jobOf("route/classify", edn.MustMap(edn.K("text"), edn.Text(words[:2<<10]))), 1.5},
		{"summarize 40 sentences", "text/extractive", jobOf("context/summarize", edn.MustMap(edn.K("text"), edn.Text(sentences(40)))), 20},
	} {
		echo := job.request.AssocKey("task", edn.MustMap(edn.K("intent"), edn.K("bench/echo")))
		ours, theirs, err := oneByOne(p, max(20, p.calls/10),
			func() error { _, err := text.ask(ctx, job.capability, job.request, nil); return err },
			func() error { return hop.call(ctx, echo) })
		if err != nil {
			return nil, fmt.Errorf("%s: %w", job.work, err)
		}
		rows = append(rows, against(job.work+", p50", median(ours), "plugin echo of it", median(theirs), job.goal))
	}
	long := jobOf("context/summarize", edn.MustMap(edn.K("text"), edn.Text(sentences(2000))))
	began := time.Now()
	if _, err := text.ask(ctx, "text/extractive", long, nil); err != nil {
		return nil, err
	}
	took := time.Since(began)
	memory, err := text.resident()
	if err != nil {
		return nil, err
	}
	mib := float64(memory) / (1 << 20)
	return append(rows,
		row{work: "summarize 2,000 sentences", ours: figure(took), goal: "<= 2 s", within: took <= 2*time.Second},
		row{work: "of it memory", ours: fmt.Sprintf("%.1f MiB", mib), goal: "<= 128 MiB", within: mib <= 128}), nil
}
