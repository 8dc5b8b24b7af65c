package plugins_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/plugins"
	"github.com/fermenthq/ferment/host/internal/runtime/config/pricelist"
	"github.com/fermenthq/ferment/host/internal/runtime/config/view"
	"github.com/fermenthq/ferment/sdk/edn"
)

const sevenModels = `plugin "chess" {
  command = ["bin/chess"]

  config {
    provider   = "vendor"
    model_name = "big"
    %ADDRESS%

    model "dated" { name = "big-2026-01-02" }

    model "deployed" {
      name = "mine"
      price { listed = "other/small" }
    }

    model "free" {
      price { free = true }
    }

    model "half" {
      price { input = "3" }
    }

    model "named" {}

    model "other" { name = "bigger" }

    model "written" {
      price {
        input  = "1"
        output = "2"
      }
    }
  }
}
`

// priced returns a configuration and a plugin whose models have prices.
func priced(t *testing.T, address string) (path string, d configtest.Describer) {
	t.Helper()
	is := configtest.Chess()
	is.ConfigSchema = edn.MustRead(`{:config/v 1 :config/schema [:map {:closed true}
		[:provider :string] [:preset {:optional true} :string] [:base-url {:optional true} :string] [:model-name {:optional true} :string]
		[:model {:block true :labels 1 :optional true} [:map-of :string [:map {:closed true} [:name {:optional true} :string]
			[:price {:block true :optional true} [:map {:closed true} [:input {:optional true} :string] [:output {:optional true} :string]
				[:free {:optional true} :boolean] [:listed {:optional true} :string]]]]]]]}`)
	path = configtest.Write(t, "ferment {\n  data_dir = \"data\"\n}\n\n"+strings.Replace(sevenModels, "%ADDRESS%", address, 1))
	list, problems := pricelist.Parse([]byte(`{:prices/version 1 :currency "USD" :vendors {"vendor" {:hosts ["api.vendor.example"]} "other" {:hosts []}}
		:prices [{:vendor "vendor" :models ["big"] :input 10M :cached-input 1M :output 20M :up-to 100 :date "2026-01-01" :source "the page"}
		         {:vendor "other" :models ["small"] :input 0.5M :output 0.6M :date "2026-01-01" :source "the page"}]}`), time.Time{})
	require.Empty(t, problems)
	_, err := list.Install(filepath.Join(filepath.Dir(path), "data"))
	require.NoError(t, err)
	return path, configtest.Describer{"chess": is}
}

// LLM-020: a configured price takes precedence over the list price of the exact
// model or a dated version of it; other models have no price.
func TestListPrices(t *testing.T) {
	big := `{:input 10M :cached-input 1M :output 20M :up-to 100 :listed "vendor/big" :source "the page" :date "2026-01-01"}`
	dated := `{:input 10M :cached-input 1M :output 20M :up-to 100 :listed "vendor/big-2026-01-02" :source "the page" :date "2026-01-01"}`
	small := `{:input 0.5M :output 0.6M :listed "other/small" :source "the page" :date "2026-01-01"}`
	for address, vendor := range map[string]bool{
		"": true, `base_url = "https://API.vendor.example/v1"`: true, `base_url = "https://proxy.example/v1"`: false, `preset = "other"`: false,
	} {
		path, d := priced(t, address)
		c, ds := config.Load(context.Background(), path, config.Options{Describer: d, Env: configtest.NoEnv})
		require.Empty(t, configtest.Types(ds), address)
		got := map[string]string{}
		for _, m := range c.ModelPrices() {
			assert.Equal(t, "chess", m.Plugin)
			got[m.Label] = m.Price.String()
			assert.Equal(t, m.Label == "deployed" || vendor && (m.Label == "named" || m.Label == "dated"), m.Listed(), "%s %s", address, m.Label)
			assert.Equal(t, m.Listed() || m.Label == "free" || m.Label == "written", m.Known(), "%s %s", address, m.Label)
		}
		require.Len(t, got, 7)
		for label, want := range map[string]string{"deployed": small, "named": big, "dated": dated} {
			if label == "deployed" || vendor {
				assert.True(t, edn.Equal(edn.MustRead(want), edn.MustRead(got[label])), "%s %s: %s", address, label, got[label])
			}
		}
		for _, label := range []string{"half", "other", "written"} {
			assert.NotContains(t, got[label], "listed", "%s %s", address, label)
		}
	}
}

// LLM-020: amounts of a price block take precedence over the entry that it names beside them, with a
// warning at the entry. The price is then one of the configuration, not of the list.
func TestAmountsBesideAnEntry(t *testing.T) {
	path, d := priced(t, "")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	both := strings.Replace(string(text), `input  = "1"`, `input  = "1"`+"\n        listed = \"vendor/big\"", 1)
	require.NoError(t, os.WriteFile(path, []byte(both), 0o600))
	c, ds := config.Load(context.Background(), path, config.Options{Describer: d, Env: configtest.NoEnv})
	require.Empty(t, configtest.Types(ds))
	i := slices.IndexFunc(ds, func(d diag.Diagnostic) bool { return d.Type == "config/unused" && d.Path[len(d.Path)-1] == "listed" })
	require.GreaterOrEqual(t, i, 0)
	assert.Equal(t, diag.SeverityWarning, ds[i].Severity)
	require.NotNil(t, ds[i].Range)
	for _, m := range c.ModelPrices() {
		if m.Label == "written" {
			assert.Equal(t, "configuration", m.From())
			assert.Equal(t, `{:input "1" :output "2"}`, m.Price.String())
		}
	}
}

// A reload passes a new list to the plugin; an invalid list is reported and the
// shipped one is used.
func TestPriceListChanges(t *testing.T) {
	path, d := priced(t, "")
	opts := config.Options{Describer: d, Env: configtest.NoEnv}
	before, ds := config.Load(context.Background(), path, opts)
	require.Empty(t, configtest.Types(ds))
	again, _ := config.Load(context.Background(), path, opts)
	assert.Equal(t, []string{"chess"}, view.Compare(before, again).Plugins.Keep)

	dir := filepath.Join(filepath.Dir(path), "data")
	list, err := pricelist.InForce(dir, time.Now())
	require.NoError(t, err)
	list.Prices[0].Output = edn.MustDecimal("21")
	file, err := list.Install(dir)
	require.NoError(t, err)
	after, _ := config.Load(context.Background(), path, opts)
	assert.Equal(t, []string{"chess"}, view.Compare(before, after).Plugins.Replace)

	require.NoError(t, os.WriteFile(file, []byte("{:prices"), 0o600))
	broken, ds := config.Load(context.Background(), path, opts)
	var warned []string
	for _, d := range ds {
		if d.Severity == diag.SeverityWarning {
			warned = append(warned, d.Type)
		}
	}
	assert.Subset(t, warned, []string{"config/type", "config/unknown-name"})
	assert.Empty(t, configtest.Types(ds))
	for _, m := range broken.ModelPrices() {
		assert.False(t, m.Listed(), m.Label)
	}
}

// A price has a source, an age and advice.
func TestModelPrice(t *testing.T) {
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	days := int(pricelist.Stale / (24 * time.Hour))
	at := func(age int) string { return now.AddDate(0, 0, -age).Format(time.DateOnly) }
	for name, row := range map[string]struct {
		price, from string
		remark      bool
		age         edn.Value
	}{
		"unknown":      {`nil`, "unknown", true, edn.Nil()},
		"half a price": {`{:input 1M}`, "unknown", true, edn.Nil()},
		"free":         {`{:free true}`, "configuration", false, edn.Nil()},
		"written":      {`{:input 1M :output 2M}`, "configuration", false, edn.Nil()},
		"listed":       {`{:input 1M :output 2M :listed "v/m" :date "` + at(1) + `"}`, "list", false, edn.Int(1)},
		"as old as may be": {
			`{:input 1M :output 2M :listed "v/m" :date "` + at(days) + `"}`, "list", false, edn.Int(int64(days)),
		},
		"old": {`{:input 1M :output 2M :listed "v/m" :date "` + at(days+1) + `"}`, "list", true, edn.Int(int64(days + 1))},
	} {
		t.Run(name, func(t *testing.T) {
			m := plugins.ModelPrice{Plugin: "p", Label: "l", Model: "m", Price: edn.MustRead(row.price)}
			assert.Equal(t, row.from, m.From())
			assert.Equal(t, row.remark, m.Remark(now) != "")
			v := m.Value(now)
			assert.Equal(t, edn.K(row.from), v.Key("from"))
			assert.Equal(t, row.age, v.Key("age-days"))
			assert.Equal(t, row.remark, v.HasKey("remark"))
		})
	}
}
