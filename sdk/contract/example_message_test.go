package contract_test

import (
	"fmt"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/edn"
)

func ExampleMessageFromAnswer() {
	answer := edn.MustRead(`{:text "Let me look." :finish :tool-calls
	                         :tool/calls [{:id "t1" :tool/id :fs/read :args {:path "a.go"}}]}`)
	m, err := contract.MessageFromAnswer(answer)
	if err != nil {
		fmt.Println(err)
		return
	}
	for call := range m.Calls() {
		fmt.Println(call.Tool, call.Args)
	}
	fmt.Println(contract.MessageValue(conversation.ToolResult("t1", "package a")))
	// Output:
	// fs/read {:path "a.go"}
	// {:content "package a" :role :tool :tool/id "t1"}
}
