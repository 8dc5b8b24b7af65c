package main

import (
	"encoding/json"
	"fmt"

	jsonschema "github.com/santhosh-tekuri/jsonschema/v6"
	olympos "olympos.io/encoding/edn"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// request returns a typical request of about 1 KiB, and plan a plan of about 10 KiB.
func request() edn.Value {
	return edn.MustRead(`{:proto 1 :trace {:id "r-4a2b" :turn 17}
 :task {:intent :code/patch :requires {:out-schema :res/patch+tests} :dispatch {:candidates [:llm/code :llm/meta] :policy :declared}}
 :input {:task "Fix the panic in Foo" :lang :go :files ["a/b/c.go" "a/b/c_test.go"] :notes "The function is called with nil when the cache is cold; see the log of the nightly run for three examples of it." :budget {:lines 120 :files 3}
         :history [{:at #inst "2026-11-20T09:00:00.000Z" :who "ada" :what :opened} {:at #inst "2026-11-20T09:10:00.000Z" :who "bob" :what :commented} {:at #inst "2026-11-20T09:20:00.000Z" :who "ada" :what :assigned}]}
 :context {:summary "a short context that was written before"} :constraints {:no-web true :language :en :max-chars 1200}
 :done {:must #{:schema-valid :patch-applies} :should #{:tests-pass} :score-min 0.8} :budget {:max-tokens 1200 :max-roundtrips 3 :max-usd 0.25M} :effects {:allowed #{:none}}}`)
}

func plan() edn.Value {
	nodes := make([]edn.Value, 60)
	for i := range nodes {
		nodes[i] = edn.MustRead(fmt.Sprintf(`{:op :call :id "c-%02d" :intent :text/respond :input {:prompt {:slot/path [:s%d :text]} :style :plain :limit %d} :dispatch {:candidates [:llm/voice :llm/meta] :retry {:same-cap-max 1}} :done {:must #{:schema-valid}} :as :s%d}`, i, i, i*10, i+1))
	}
	return edn.MustMap(edn.K("id"), edn.Text("p"), edn.K("nodes"), edn.Vector(nodes...))
}

// codecs compares decoding and encoding with olympos.io/encoding/edn and encoding/json.
func codecs(p pace) ([]row, error) {
	var rows []row
	for _, c := range []struct {
		name           string
		v              edn.Value
		decode, encode float64
	}{{"1 KiB request", request(), 0.2, 0.06}, {"10 KiB plan", plan(), 0.25, 0.06}} {
		text := c.v.Canonical()
		asJSON, err := edn.WriteJSON(c.v)
		if err != nil {
			return nil, err
		}
		var theirs, parsed any
		if err := olympos.Unmarshal(text, &theirs); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(asJSON, &parsed); err != nil {
			return nil, err
		}
		buf := make([]byte, 0, 2*len(text))
		t := alternate(p,
			func() { must(edn.Read(text)) },
			func() { var v any; check(olympos.Unmarshal(text, &v)) },
			func() { var v any; check(json.Unmarshal(asJSON, &v)) },
			func() { buf = c.v.AppendCanonical(buf[:0]) },
			func() { must(olympos.Marshal(theirs)) },
			func() { must(json.Marshal(parsed)) },
		)
		rows = append(rows,
			against("decode "+c.name, t[0], "olympos edn", t[1], c.decode),
			against("decode "+c.name, t[0], "encoding/json", t[2], 0),
			against("encode "+c.name, t[3], "olympos edn", t[4], c.encode),
			against("encode "+c.name, t[3], "encoding/json", t[5], 0),
		)
	}
	return rows, nil
}

// schemas compares the validation of a request of about 1 KiB with a schema of
// twenty fields.
func schemas(p pace) ([]row, error) {
	spec := edn.MustRead(`[:map [:proto :int] [:trace [:map [:id :string] [:turn {:optional true} :int]]]
 [:task [:map [:intent :keyword] [:requires {:optional true} :map] [:dispatch {:optional true} [:map [:candidates [:vector :keyword]] [:policy :keyword]]]]]
 [:input [:map [:task :string] [:lang :keyword] [:files [:vector :string]] [:notes :string] [:history [:vector [:map [:at :inst] [:who :string] [:what :keyword]]]]]]
 [:context :map] [:constraints [:map [:no-web :boolean] [:max-chars [:int {:min 1 :max 12000}]]]]
 [:done [:map [:must [:set :keyword]] [:score-min :number]]] [:effects :map]]`)
	ours, err := schema.Compile(spec)
	if err != nil {
		return nil, err
	}
	v := request()
	if found := ours.Validate(v); len(found) > 0 {
		return nil, fmt.Errorf("the sample does not fit: %v", found[0])
	}
	exported, err := edn.WriteJSON(ours.JSONSchema())
	if err != nil {
		return nil, err
	}
	var doc any
	if err := json.Unmarshal(exported, &doc); err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("request.json", doc); err != nil {
		return nil, err
	}
	peer, err := compiler.Compile("request.json")
	if err != nil {
		return nil, err
	}
	asJSON, err := edn.WriteJSON(v)
	if err != nil {
		return nil, err
	}
	var instance any
	if err := json.Unmarshal(asJSON, &instance); err != nil {
		return nil, err
	}
	if err := peer.Validate(instance); err != nil {
		return nil, err
	}
	t := alternate(p,
		func() { ours.Validate(v) },
		func() { check(peer.Validate(instance)) },
	)
	return []row{against("validate 1 KiB request", t[0], "jsonschema/v6", t[1], 0)}, nil
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

func check(err error) {
	if err != nil {
		panic(err) // the samples were read once before
	}
}
