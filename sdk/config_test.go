package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest"
	"github.com/fermenthq/ferment/sdk/wire"
)

type model struct {
	Name   string `edn:"name"`
	Tokens int    `edn:"tokens,omitempty" min:"1"`
}

type full struct {
	Engine  string            `edn:"engine" enum:"builtin,uci" doc:"search engine"`
	Depth   int               `edn:"depth" min:"1" max:"64" doc:"search depth in plies"`
	Timeout int64             `edn:"timeout-ms,omitempty" unit:"ms"`
	Path    string            `edn:"path,omitempty" unit:"path" deprecated:"use engine"`
	APIKey  string            `edn:"api-key" secret:"true"`
	Ratio   float64           `edn:"ratio,omitempty"`
	On      *bool             `edn:"on"`
	Words   []string          `edn:"words"`
	Limits  limits            `edn:"limits"`
	Models  map[string]model  `edn:"model"`
	Extra   map[string]string `edn:"extra"`
	Any     edn.Value         `edn:"any,omitempty"`

	Values map[string]edn.Value `edn:"values,omitempty"`

	Hidden  string `edn:"-"`
	private int
}

type limits struct {
	Calls int `edn:"calls"`
}

// HCL-035: the schema of a configuration is derived from the author's type.
func TestConfigSchemaIsDerived(t *testing.T) {
	p := sdktest.Serve(t, sdk.Plugin{Name: "c", Version: "1", Config: sdk.Config[full]{
		Default: full{Engine: "builtin", Depth: 6, Limits: limits{Calls: 3}, private: 1},
	}}, sdktest.Unconfigured())
	raw, err := p.Client().Describe(t.Context(), edn.Nil(), wire.HostInfo{})
	require.NoError(t, err)
	d, err := raw.Parse()
	require.NoError(t, err)
	assert.Equal(t, "1", d.ConfigSchema.Key("config/v").String())
	var lines []string
	for part := range d.ConfigSchema.Key("config/schema").Elems() {
		lines = append(lines, part.String())
	}
	assert.Equal(t, []string{
		`:map`,
		`{:closed true}`,
		`[:engine {:default "builtin" :doc "search engine"} [:enum "builtin" "uci"]]`,
		`[:depth {:default 6 :doc "search depth in plies"} [:int {:max 64 :min 1}]]`,
		`[:timeout-ms {:optional true :unit :ms} :int]`,
		`[:path {:deprecated "use engine" :optional true :unit :path} :string]`,
		`[:api-key {:secret true} :string]`,
		`[:ratio {:optional true} :number]`,
		`[:on {:optional true} :boolean]`,
		`[:words {:optional true} [:sequential :string]]`,
		`[:limits {:block true :optional true} [:map {:closed true} [:calls {:default 3} :int]]]`,
		`[:model {:block true :labels 1 :optional true} [:map-of :string [:map {:closed true} [:name {} :string] [:tokens {:optional true} [:int {:min 1}]]]]]`,
		`[:extra {:block true :free true :optional true} [:map-of :string :string]]`,
		`[:any {:optional true} :any]`,
		`[:values {:block true :free true :optional true} [:map-of :string :any]]`,
	}, lines)
}

// SDK-002: the configuration is decoded over the defaults into the author's
// struct, with the secrets at their paths.
func TestConfigIsDecoded(t *testing.T) {
	var got full
	p := sdk.Plugin{Name: "c", Version: "1", Config: sdk.Config[full]{
		Default: full{Engine: "builtin", Depth: 6},
		Start:   func(_ context.Context, cfg full) error { got = cfg; return nil },
		Offer: func(_ context.Context, cfg full) (sdk.Offer, error) {
			var o sdk.Offer
			for name := range cfg.Models {
				o.Capabilities = append(o.Capabilities, sdk.Func("llm/"+name, sdk.Intents("text/respond"), func(ctx context.Context, _ struct{}) (string, error) {
					return sdk.ConfigFrom[full](ctx).APIKey, nil
				}))
			}
			o.Needs, o.Ports = []string{"net/connect"}, []uint16{8443, 443}
			return o, nil
		},
	}}
	served := sdktest.Serve(t, p,
		sdktest.WithConfig(edn.MustRead(`{:depth 8 :api-key nil :model {"small" {:name "s-1"}} :extra {"a" "b"} :words ["x"] :on false}`)),
		sdktest.WithSecrets(map[string]string{"api-key": "sk-1"}))
	assert.Equal(t, "builtin", got.Engine)
	assert.Equal(t, 8, got.Depth)
	assert.Equal(t, "sk-1", got.APIKey)
	assert.Equal(t, map[string]model{"small": {Name: "s-1"}}, got.Models)
	assert.Equal(t, map[string]string{"a": "b"}, got.Extra)
	assert.Equal(t, []string{"x"}, got.Words)
	assert.False(t, *got.On)
	assert.Equal(t, []string{"net/connect"}, served.Description().Needs)
	assert.Equal(t, []uint16{443, 8443}, served.Description().Ports)
	assert.Equal(t, "sk-1", text(served.MustInvoke("llm/small", nil)))
	assert.Equal(t, "", sdk.ConfigFrom[full](t.Context()).Engine)
}

// SDK-002, HCL-003: Describe and Configure report every problem at once, each
// with its path; Describe does not report missing secrets.
func TestConfigProblems(t *testing.T) {
	p := sdk.Plugin{Name: "c", Version: "1", Capabilities: []sdk.Capability{answering("x")}, Config: sdk.Config[full]{
		Default: full{Engine: "builtin", Depth: 6},
		Offer: func(_ context.Context, cfg full) (sdk.Offer, error) {
			if cfg.Path == "missing" {
				return sdk.Offer{}, sdk.Problem("no such file", edn.K("path"))
			}
			return sdk.Offer{}, nil
		},
		Check: func(cfg full) error {
			if cfg.Depth == 13 {
				return errors.Join(sdk.Problem("unlucky", edn.K("depth")), errors.New("and in general"))
			}
			return nil
		},
		Start: func(_ context.Context, cfg full) error {
			switch cfg.Depth {
			case 14:
				return errors.New("cannot reach the server")
			case 15:
				panic("in start")
			}
			return nil
		},
	}}
	for _, tt := range []struct {
		config    string
		describe  string
		configure string
	}{
		{`{:api-key nil}`, ``, ``},
		{`{}`, ``, ``},
		{`{:depth 99 :engine "x" :dept 1 :limits {:calls "a"} :model {"m" {}}}`,
			`[:dept] [:depth] [:engine] [:limits :calls] [:model "m" :name]`, `[:dept] [:depth] [:engine] [:limits :calls] [:model "m" :name]`},
		{`{:path "missing"}`, `[:path]`, `[:path]`},
		{`{:depth 13}`, ``, `[:depth] []`},
		{`{:depth 14}`, ``, `:runtime/start-failed`},
		{`{:depth 15}`, ``, `:runtime/invoke-failed`},
		{`[]`, `[]`, `[]`},
	} {
		t.Run(tt.config, func(t *testing.T) {
			served := sdktest.Serve(t, p, sdktest.Unconfigured())
			d, err := served.Client().Describe(t.Context(), edn.MustRead(tt.config), wire.HostInfo{})
			require.NoError(t, err)
			assert.Equal(t, tt.describe, paths(d))
			d, err = served.Client().Configure(t.Context(), wire.Setup{Config: edn.MustRead(tt.config)}, nil)
			if err != nil {
				assert.Equal(t, tt.configure, ":"+contract.AsError(err).Type)
				return
			}
			assert.Equal(t, tt.configure, paths(d))
			h, err := served.Client().Probe(t.Context())
			require.NoError(t, err)
			assert.Equal(t, tt.configure == "", h.State.Callable())
		})
	}
}

func paths(d wire.Description) string {
	var all []string
	for _, f := range d.Findings {
		all = append(all, edn.Vector(f.Path...).String())
	}
	return strings.Join(all, " ")
}

// A plugin whose configuration had findings can be configured again.
func TestConfigureAgainAfterARefusal(t *testing.T) {
	served := sdktest.Serve(t, fixture(), sdktest.Unconfigured())
	d, err := served.Client().Configure(t.Context(), wire.Setup{Config: edn.MustRead(`{:times 9}`)}, nil)
	require.NoError(t, err)
	require.Equal(t, "[:times]", paths(d))
	d, err = served.Client().Configure(t.Context(), wire.Setup{Config: edn.MustRead(`{:times 2}`)}, nil)
	require.NoError(t, err)
	require.Empty(t, d.Findings)
	_, err = served.Client().Configure(t.Context(), wire.Setup{Config: edn.MustRead(`{:times 2}`)}, nil)
	require.ErrorIs(t, err, contract.OfType("runtime/protocol"))
}

// A configuration type without a schema returns :capability/invalid-metadata.
func TestConfigTypesThatCannotBe(t *testing.T) {
	type embedded struct{ settings }
	for name, config := range map[string]sdk.Configuration{
		"no struct": sdk.Config[int]{},
		"embedded":  sdk.Config[embedded]{},
		"bad bound": sdk.Config[struct {
			A int `min:"x y"`
		}]{},
		"bad unit": sdk.Config[struct {
			A int `unit:"a b"`
		}]{},
		"bad schema":  sdk.Config[settings]{Schema: edn.MustRead(`[:map [:a :nonsense]]`)},
		"bad default": sdk.Config[struct{ A any }]{Default: struct{ A any }{func() {}}},
	} {
		t.Run(name, func(t *testing.T) {
			served := sdktest.Serve(t, sdk.Plugin{Name: "c", Version: "1", Config: config}, sdktest.Unconfigured())
			_, err := served.Client().Describe(t.Context(), edn.MustMap(), wire.HostInfo{})
			require.ErrorIs(t, err, contract.OfType("capability/invalid-metadata"))
			t.Log(err)
		})
	}
}

// A plugin without Config rejects settings.
func TestNoConfig(t *testing.T) {
	served := sdktest.Serve(t, plugin(answering("x")), sdktest.Unconfigured())
	d, err := served.Client().Configure(t.Context(), wire.Setup{Config: edn.MustRead(`{:a 1}`)}, nil)
	require.NoError(t, err)
	require.Len(t, d.Findings, 1)
	assert.Contains(t, d.Findings[0].Message, "no configuration")
	assert.NotEmpty(t, fmt.Sprint(sdk.Problem("x", edn.K("a"))))
}
