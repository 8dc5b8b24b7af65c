// Command txclose is a vet tool: go vet -vettool=$(which txclose) ./...
package main

import (
	"golang.org/x/tools/go/analysis/unitchecker"

	"github.com/fermenthq/ferment/sdk/conversation/txclose"
)

func main() { unitchecker.Main(txclose.Analyzer) }
