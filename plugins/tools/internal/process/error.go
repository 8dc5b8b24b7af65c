package process

import (
	"errors"
	"io/fs"

	"github.com/fermenthq/ferment/sdk/confine"
)

func as(err error, into **confine.Error) bool { return errors.As(err, into) }

// cause returns the text of a system error without the path, which the message already contains.
func cause(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}
