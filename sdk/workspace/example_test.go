package workspace_test

import (
	"context"
	"fmt"

	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/workspace"
)

// notes stands for a host with a workspace: it answers two intents.
type notes struct{ text string }

func (n *notes) Invoke(_ context.Context, ask sdk.Ask) (sdk.Answer, error) {
	in, err := sdk.Encode(ask.Input)
	if err != nil {
		return sdk.Answer{}, err
	}
	switch ask.Intent {
	case "context/put-frame":
		n.text, _ = in.Key("content").AsString()
		return answer(`{:frame/id "f1-b3-01" :frame/existing? false :seq 4}`), nil
	}
	return answer(fmt.Sprintf(`{:node/id "n1-b3-01" :node {:path "src/a.go" :kind :file} :frame/count 1 :seq 4
		:frames [{:frame/id "f1-b3-01" :frame/type "note" :agent/id "writer" :frame/origin :authored :state :fresh :content %q}]}`, n.text)), nil
}

func answer(out string) sdk.Answer {
	return sdk.Answer{Response: edn.MustRead(`{:result {:type :value :out ` + out + `}}`)}
}

// In a plugin the Invoker is left out: the host of the call answers.
func Example() {
	w := workspace.Adapter{Invoker: &notes{}, Agent: "writer"}
	ctx := context.Background()
	put, err := w.WriteContext(ctx, "src/a.go", workspace.NewFrame{Type: "note", Content: "Parses flags."})
	if err != nil {
		fmt.Println(err)
		return
	}
	node, err := w.ReadContext(ctx, "src/a.go", workspace.View{MaxFrames: 5})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(put.ID, node.Kind, node.Frames[0].State, node.Frames[0].Content)
	// Output: f1-b3-01 file fresh Parses flags.
}
