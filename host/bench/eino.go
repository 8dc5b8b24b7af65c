package main

import (
	"context"
	"fmt"
	"testing"

	"github.com/cloudwego/eino/compose"
)

// The peer of the evaluator: an eino graph whose nodes do as little as ours, in sequence, in the
// trigger mode for graphs without cycles.

// einoLength is the number of nodes in the graph.
const einoLength = 10

// einoChain compiles the graph.
func einoChain(ctx context.Context) (compose.Runnable[map[string]any, map[string]any], error) {
	g := compose.NewGraph[map[string]any, map[string]any]()
	last := compose.START
	for i := range einoLength {
		name := fmt.Sprintf("s%d", i)
		step := compose.InvokableLambda(func(_ context.Context, in map[string]any) (map[string]any, error) {
			return map[string]any{"n": 1, "before": in["n"]}, nil
		})
		if err := g.AddLambdaNode(name, step); err != nil {
			return nil, err
		}
		if err := g.AddEdge(last, name); err != nil {
			return nil, err
		}
		last = name
	}
	if err := g.AddEdge(last, compose.END); err != nil {
		return nil, err
	}
	return g.Compile(ctx, compose.WithNodeTriggerMode(compose.AllPredecessor))
}

func einoRun(b *testing.B) error {
	ctx := context.Background()
	graph, err := einoChain(ctx)
	if err != nil {
		return err
	}
	b.ReportAllocs()
	for b.Loop() {
		out, err := graph.Invoke(ctx, map[string]any{"n": 1})
		if err != nil {
			return err
		}
		if out["before"] != 1 {
			return fmt.Errorf("eino answered %v", out)
		}
	}
	return nil
}
