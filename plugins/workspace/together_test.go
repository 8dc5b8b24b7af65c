package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
	"github.com/fermenthq/ferment/sdk/wire"
)

// WS-046, WS-047, WS-116: scans, puts, regenerations and reads run beside a watch, and a
// third of them is canceled at a random point. The others succeed; the store is valid, its
// tree is that of the disk, and a regeneration ends with nothing left to make.
func TestAllAtOnce(t *testing.T) {
	rounds := proof.Size(t, "rounds of all at once", 8, 300)
	b := scannedBench(t, fourFiles)
	b.call("context/generate", `{:path "." :recursive? true :frame/type "digest"}`)

	watched, stop := context.WithCancel(t.Context())
	defer stop()
	ready := make(chan struct{})
	var watch, work sync.WaitGroup
	watch.Go(func() {
		var once sync.Once
		_, err := b.p.Do(watched, callOf("workspace/watch", `{:workspace "`+b.root+`" :debounce 5 :batch 5}`, func(wire.Event) {
			once.Do(func() { close(ready) })
		}))
		assert.Error(t, err, "it ends when it is canceled")
	})
	<-ready
	repeat := func(seed uint64, intent string, input func(round int) string) {
		work.Go(func() {
			r := rand.New(rand.NewPCG(seed, 46))
			for round := range rounds {
				limit, cut := time.Hour, r.IntN(3) == 0
				if cut {
					limit = time.Duration(r.IntN(20_000)) * time.Microsecond
				}
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				call := sdktest.Call{Capability: intent, Input: edn.MustRead(input(round)), Context: as("ann", administer)}
				response, err := b.p.Do(ctx, call)
				if failure := response.Key("error"); err == nil && !failure.IsNil() {
					err = contract.ErrorFromValue(failure, contract.SourcePlugin)
				}
				if !cut && err != nil {
					assert.ErrorIs(t, err, contract.OfType("regenerate/contended"), intent)
				}
				cancel()
			}
		})
	}
	repeat(1, "workspace/scan", func(round int) string {
		b.write(map[string]string{"a/x.txt": fmt.Sprintf("round %d\n", round), fmt.Sprintf("new/%d.txt", round%4): "new\n"})
		return `{}`
	})
	repeat(2, "context/put-frame", func(round int) string {
		return fmt.Sprintf(`{:path "b" :frame/type "note" :content "note %d"}`, round)
	})
	repeat(3, "context/regenerate", func(int) string { return `{:path "." :recursive? true}` })
	repeat(4, "context/get-node", func(int) string { return `{:path "b" :view "history"}` })
	work.Wait()
	stop()
	watch.Wait()

	b.call("workspace/scan", `{}`)
	b.call("context/regenerate", `{:path "." :recursive? true}`)
	again := b.call("context/regenerate", `{:path "." :recursive? true}`).Key("counts")
	assert.Equal(t, "0 0", again.Key("file").String()+" "+again.Key("directory").String())
	valid := b.call("workspace/validate", `{:fs? true}`)
	assert.True(t, valid.Key("valid?").Truthy(), valid)
	assert.Zero(t, valid.Key("warnings").Len(), valid)
}
