package process

import (
	"errors"
	"io/fs"

	"github.com/fermenthq/ferment/sdk/confine"
)

func as(err error, into **confine.Error) bool { return errors.As(err, into) }

// cause is an error of the system without the path that the message has.
func cause(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}
