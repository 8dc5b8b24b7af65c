//go:build !unix

package scan

import (
	"context"
	"os"

	"github.com/fermenthq/ferment/sdk/contract"
)

// Inode returns 0: the inode is not known.
func Inode(os.FileInfo) uint64 { return 0 }

// Run fails: this system has no directory handles that follow no link.
func Run(context.Context, Options) (*Result, error) {
	return nil, contract.Errorf("workspace/not-found", "workspaces are not supported on this system").
		WithHint("use a Unix system, such as Linux or macOS")
}
