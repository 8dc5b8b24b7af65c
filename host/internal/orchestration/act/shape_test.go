package act_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/sdk/edn"
)

// SCHED-006, POL-001: concurrent acts of the same shape share its computed
// parts, and none of their own; an act of another shape gets its own policy.
func TestActsOfOneShape(t *testing.T) {
	w := two(t)
	echo := func(_ context.Context, c dispatch.Call) dispatchtest.Step {
		return dispatchtest.Step{Value: edn.MustMap(edn.K("text"), edn.Text("x"), edn.K("sent"), c.Request, edn.K("by"), edn.K(c.CapID))}
	}
	w.Func("a/one", echo)
	w.Func("a/two", echo)
	s := service(t, w)
	var group sync.WaitGroup
	for i := range 64 {
		group.Go(func() {
			more, by := "", ":a/one"
			switch i % 4 {
			case 1:
				more = fmt.Sprintf(`:context {:summary "s%d"}`, i)
			case 2:
				more = fmt.Sprintf(`:budget {:max-tokens %d}`, 100+i)
			case 3:
				more, by = `:effects {:allowed #{:none}}`, ":a/two"
			}
			dispatchKey := ""
			if by == ":a/two" {
				dispatchKey = `:dispatch {:candidates [:a/two]}`
			}
			resp, err := s.Do(context.Background(), request(fmt.Sprintf(
				`{:proto 1 :trace {:id "t%d"} :task {:intent :text/respond %s} :input {:prompt "p%d"} %s}`, i, dispatchKey, i, more)))
			if !assert.Nil(t, err) {
				return
			}
			out := resp.Key("result").Key("out")
			sent := out.Key("sent")
			assert.Equal(t, by, out.Key("by").String())
			assert.Equal(t, fmt.Sprintf(`{:id "t%d"} {:prompt "p%d"}`, i, i), sent.Key("trace").String()+" "+sent.Key("input").String())
			switch i % 4 {
			case 1:
				assert.Equal(t, fmt.Sprintf(`{:summary "s%d"}`, i), sent.Key("context").String())
			case 2:
				assert.Equal(t, fmt.Sprint(100+i), sent.Key("budget").Key("max-tokens").String())
			default:
				assert.True(t, sent.Key("context").IsNil())
				assert.True(t, sent.Key("budget").Key("max-tokens").IsNil())
			}
		})
	}
	group.Wait()
}

// SCHED-006: an act has the same plan with and without cached shapes, whatever
// the acts before it differ in.
func TestShapesAreKeptApart(t *testing.T) {
	w := two(t)
	asking := func(s *act.Service, task, more string) string {
		resp, err := s.Do(context.Background(), request(`{:proto 1 :trace {:id "r"} :debug/plan? true :input {:prompt "p"} :task {:intent :text/respond `+task+`} `+more+`}`))
		if err != nil {
			return ":" + err.Type + " " + err.Message
		}
		return resp.Key("plan/debug").Key("plan").String() + resp.Key("result").String()
	}
	variants := [][2]string{
		{}, {"", `:context {:summary "s"}`}, {"", `:context {}`}, {":cap/id :a/two", ""}, {":cap/id :a/one", ""},
		{":dispatch {:candidates [:a/two]}", ""}, {":dispatch {:candidates [:a/one]}", ""},
		{":requires {:cap/kind :solver}", ""}, {":requires {:cap/kind :solver :io/out-schema :res/any}", ""},
		{"", ":done {:must #{:schema-valid}}"}, {"", ":done {:should #{:schema-valid}}"}, {"", ":done {:must #{:schema-valid} :score-min 0.5M}"},
		{"", `:constraints {:lang "en"}`}, {"", `:constraints {:lang "de"}`}, {"", ":effects {:allowed #{:none}}"}, {"", ":effects {}"},
		{"", ":role :writer"}, {"", `:model "m"`}, {"", `:system "be brief"`}, {"", `:model "be brief"`}, {"", ":budget {:max-tokens 10}"},
	}
	shared := service(t, w)
	for range 2 {
		for _, v := range variants {
			assert.Equal(t, asking(service(t, w), v[0], v[1]), asking(shared, v[0], v[1]), "%s", v)
		}
	}
}

// RUN-003: callers whose requests never repeat are served too.
func TestManyShapes(t *testing.T) {
	w := two(t)
	w.Func("a/one", func(context.Context, dispatch.Call) dispatchtest.Step { return value(`{:text "x"}`) })
	s := service(t, w)
	for i := range 1200 {
		_, err := s.Do(context.Background(), request(ask+fmt.Sprintf(`:budget {:max-tokens %d}}`, 1+i)))
		require.Nil(t, err)
	}
	long := ask + `:budget {:max-tokens 7} :system "` + fmt.Sprintf("%05000d", 1) + `"}`
	for range 2 {
		_, err := s.Do(context.Background(), request(long))
		require.Nil(t, err)
	}
	assert.Equal(t, `7`, w.Calls()[1201].Request.Key("budget").Key("max-tokens").String())
}
