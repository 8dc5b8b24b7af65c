package history

import (
	"errors"

	"github.com/fermenthq/ferment/host/internal/adapters/store"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Failure converts an error of the store to a *contract.Error for callers; nil for nil.
func Failure(err error) *contract.Error {
	var damage *store.Damage
	var schema *store.SchemaError
	var network *store.NetworkError
	var unsafe *store.SettingError
	var unreachable *store.UnreachableError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unreachable):
		return contract.Errorf("journal/unavailable", "%s", unreachable.Error())
	case errors.As(err, &network):
		return contract.Errorf("journal/unavailable", "%s", network.Error()).WithRetryable(false).WithHint(network.Fix())
	case errors.As(err, &unsafe):
		return contract.Errorf("journal/unavailable", "%s", unsafe.Error()).WithRetryable(false)
	case errors.As(err, &damage):
		e := contract.Errorf("journal/damaged", "%s", damage.Error()).WithDetail("damage", DamageValue(damage))
		if damage.Lost {
			e = e.WithHint(damage.Fix())
		}
		return e
	case errors.As(err, &schema):
		return contract.Errorf("journal/unavailable", "%w", schema).WithRetryable(false).WithHint(schema.Fix())
	}
	return contract.AsError(err)
}

// DamageValue returns a damage as an EDN map with :what and, if known, :run, :seq and :hash.
func DamageValue(d *store.Damage) edn.Value {
	var b edn.MapBuilder
	for key, text := range map[string]string{"run": d.Run, "hash": d.Hash} {
		if text != "" {
			b.Key(key, edn.Text(text))
		}
	}
	if d.Seq > 0 {
		b.Key("seq", edn.Int(int64(d.Seq)))
	}
	b.Key("what", edn.Text(d.What))
	return b.Map()
}
