package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/sdk/edn"
)

// config is the configuration of the example, from the root of the repository.
const config = "examples/quality/ferment.hcl"

// host runs ferment, each time anew: what one run has learnt the next does not
// know.
type host struct {
	ferment string
	env     []string
	scratch string
	config  string
}

func newHost(bin string) (*host, error) {
	bin, err := filepath.Abs(bin)
	if err != nil {
		return nil, err
	}
	h := &host{ferment: filepath.Join(bin, "ferment"), config: config}
	if _, err := os.Stat(h.ferment); err != nil {
		return nil, fmt.Errorf("run it from the root of the repository after \"make build\": %w", err)
	}
	if h.scratch, err = os.MkdirTemp("", "ferment-quality-"); err != nil {
		return nil, err
	}
	h.env = append(os.Environ(), "FERMENT_EXAMPLE_BIN="+bin, "FERMENT_EXAMPLE_DATA="+filepath.Join(h.scratch, "data"))
	return h, nil
}

func (h *host) close() { _ = os.RemoveAll(h.scratch) }

// do runs a verb and reads its answer as JSON. A run whose items fail in part is
// no failure.
func (h *host) do(into any, floor string, args ...string) error {
	cmd := exec.Command(h.ferment, append(args, "--config", h.config, "--json")...)
	cmd.Env = append(slices.Clone(h.env), "FERMENT_EXAMPLE_FLOOR="+floor)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("ferment %s: %w\n%s%s", args[0], err, errs.String(), out.String())
	}
	if err := json.Unmarshal(out.Bytes(), into); err != nil {
		return fmt.Errorf("ferment %s: the answer is no JSON: %w", args[0], err)
	}
	return nil
}

// figures are what a run came to.
type figures struct {
	asked, accepted, attempts int
	cost                      float64
	calls                     map[string]int // by capability
	deeds                     []string       // what was done about candidates
}

func (f figures) rate() float64 { return float64(f.accepted) / float64(max(1, f.asked)) }

// whom tells how often each candidate was asked.
func (f figures) whom() string {
	var parts []string
	for id, n := range f.calls {
		parts = append(parts, fmt.Sprintf("%s %d", id[strings.Index(id, "/")+1:], n))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// entry is an attempt, or something that was done about a candidate.
type entry struct {
	Op      string `json:"op"`
	Path    []any  `json:"path"`
	CapID   string `json:"cap/id"`
	Failure string `json:"failure/type"`
	Input   struct {
		Event string `json:"event"`
		To    string `json:"to"`
		Why   string `json:"why"`
	} `json:"input"`
}

// ask asks an intent for each input, one after the other, with the candidates
// in that order.
func (h *host) ask(intent, key string, inputs []string, order string, candidates []string, floor string) (figures, error) {
	f := figures{asked: len(inputs), calls: map[string]int{}}
	prices, err := h.prices(intent)
	if err != nil {
		return f, err
	}
	file := filepath.Join(h.scratch, "plan.edn")
	if err := os.WriteFile(file, []byte(planOf(intent, key, inputs, order, candidates)), 0o600); err != nil {
		return f, err
	}
	var response struct {
		Transcript []entry `json:"transcript"`
	}
	if err := h.do(&response, floor, "run", file, "--transcript"); err != nil {
		return f, err
	}
	accepted := map[string]bool{}
	for _, e := range response.Transcript {
		question := fmt.Sprint(e.Path)
		if e.Op == "quality" {
			f.deeds = append(f.deeds, fmt.Sprintf("  after %d questions: %s of %s by %s, because %s", len(accepted), e.Input.Event, e.CapID, e.Input.To, e.Input.Why))
			continue
		}
		f.attempts++
		f.calls[e.CapID]++
		f.cost += prices[e.CapID]
		accepted[question] = e.Failure == ""
	}
	for _, ok := range accepted {
		if ok {
			f.accepted++
		}
	}
	return f, nil
}

// prices are what the capabilities of an intent cost a call, by the
// configuration.
func (h *host) prices(intent string) (map[string]float64, error) {
	var explained struct {
		Candidates []struct {
			CapID   string `json:"cap/id"`
			Figures struct {
				Cost json.Number `json:"cost-usd"`
			} `json:"figures"`
		} `json:"candidates"`
	}
	if err := h.do(&explained, "0", "explain", intent, "--local"); err != nil {
		return nil, err
	}
	prices := map[string]float64{}
	for _, c := range explained.Candidates {
		price, err := c.Figures.Cost.Float64()
		if err != nil {
			return nil, fmt.Errorf("the price of %s: %w", c.CapID, err)
		}
		prices[c.CapID] = price
	}
	return prices, nil
}

// planOf maps a call over the inputs.
func planOf(intent, key string, inputs []string, order string, candidates []string) string {
	list := make([]edn.Value, len(inputs))
	for i, s := range inputs {
		list[i] = edn.Text(s)
	}
	among := ""
	if len(candidates) > 0 {
		among = ":candidates [:" + strings.Join(candidates, " :") + "]"
	}
	return fmt.Sprintf(`{:bindings {:questions %s}
 :nodes [{:op :map :over {:slot/id :questions} :item :question :as :answers :max-parallel 1 :on-item-error :keep
          :body [{:op :call :id "ask" :intent :%s :input {%s {:slot/id :question}} :as :answer :dispatch {:policy :%s %s}}
                 {:op :emit :input :answer}]}
         {:op :emit :input {:slot/path [:answers :out]}}]}
`, edn.Vector(list...), intent, key, order, among)
}
