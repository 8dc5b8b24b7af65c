package client_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/fermenthq/ferment/sdk/client"
	"github.com/fermenthq/ferment/sdk/edn"
)

// daemon answers as a daemon does that renders texts.
func daemon() *httptest.Server {
	const run = "run_01AAAAAAAAAAAAAAAAAAAAAAAA"
	envelope := `{:proto 1 :run/id "` + run + `" :result {:type :value :out {:text "Hello, Ada"}}}`
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/act", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Ferment-Run-Id", run)
		w.Header().Set("Content-Type", "application/edn")
		if r.URL.RawQuery == "format=edn" {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = fmt.Fprintf(w, "id: %s.1\nevent: accepted\ndata: {:event :accepted}\n\n", run)
			_, _ = fmt.Fprintf(w, "id: %s.2\nevent: finished\ndata: {:event :finished :response %s}\n\n", run, envelope)
			return
		}
		_, _ = fmt.Fprint(w, envelope)
	})
	mux.HandleFunc("GET /v1/runs", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/edn")
		_, _ = fmt.Fprintf(w, `{:runs [{:run "%s" :status :failed :intent :text/render :principal "user/1" :epoch 1 :records 9
			:accepted-at #inst "2026-11-20T09:00:00Z" :error/type :timeout/hard}] :more? false}`, run)
	})
	return httptest.NewServer(mux)
}

func Example() {
	server := daemon()
	defer server.Close()
	c, err := client.New(server.URL, client.WithToken("fmt_..."))
	if err != nil {
		panic(err)
	}
	request, err := client.NewRequest("order-17", "text/render", edn.MustRead(`{:template "Hello, {{name}}" :data {:name "Ada"}}`))
	if err != nil {
		panic(err)
	}
	response, err := c.Act(context.Background(), request, client.Call{Key: "order-17"})
	if err == nil {
		err = response.Err()
	}
	fmt.Println(response.Out().Key("text"), err)
	// Output: "Hello, Ada" <nil>
}

func ExampleClient_Stream() {
	server := daemon()
	defer server.Close()
	c, err := client.New(server.URL)
	if err != nil {
		panic(err)
	}
	request, err := client.NewRequest("order-18", "text/render", edn.MustRead(`{:template "Hello, {{name}}" :data {:name "Ada"}}`))
	if err != nil {
		panic(err)
	}
	response, err := c.Stream(context.Background(), request, client.Call{}, func(e client.Event) error {
		fmt.Println(e.Name)
		return nil
	})
	fmt.Println(response.Out(), err)
	// Output:
	// accepted
	// finished
	// {:text "Hello, Ada"} <nil>
}

func ExampleClient_Runs() {
	server := daemon()
	defer server.Close()
	c, err := client.New(server.URL)
	if err != nil {
		panic(err)
	}
	for f := (client.Filter{Status: "failed", Limit: 200}); ; {
		page, err := c.Runs(context.Background(), f)
		if err != nil {
			panic(err)
		}
		for _, run := range page.Runs {
			fmt.Println(run.Intent, run.Status, run.ErrorType)
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			return
		}
	}
	// Output: text/render failed timeout/hard
}
