package result

import (
	"encoding/base64"
	"fmt"
	"time"

	"github.com/fermenthq/ferment/sdk/edn"
)

// BytesTag is the tag of a byte string, whose value is base64.
const BytesTag = "db/bytes"

// Bytes returns a byte string as a tagged value.
func Bytes(b []byte) edn.Value {
	return edn.MustTagged(BytesTag, edn.Text(base64.StdEncoding.EncodeToString(b)))
}

// AsBytes returns the byte string in v; ok is false if v is not one.
func AsBytes(v edn.Value) ([]byte, bool) {
	tag, in, ok := v.AsTagged()
	text, isText := in.AsString()
	if !ok || tag != BytesTag || !isText {
		return nil, false
	}
	b, err := base64.StdEncoding.DecodeString(text)
	return b, err == nil
}

// Instant returns an instant as text in UTC with milliseconds, or with as many
// digits as it needs.
func Instant(t time.Time) string {
	t = t.UTC()
	layout := "2006-01-02T15:04:05.000Z"
	switch ns := t.Nanosecond(); {
	case ns%1000 != 0:
		layout = "2006-01-02T15:04:05.000000000Z"
	case ns%1_000_000 != 0:
		layout = "2006-01-02T15:04:05.000000Z"
	}
	return t.Format(layout)
}

// UUIDText returns a UUID as 36 characters in lower case.
func UUIDText(u [16]byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// JSON returns a map, vector, list or set as JSON text. ok is false for other kinds. The error is
// that of a value that JSON cannot express.
func JSON(v edn.Value) (text string, ok bool, err error) {
	switch v.Kind() {
	case edn.KindMap, edn.KindVector, edn.KindList, edn.KindSet:
		b, err := edn.WriteJSON(v)
		return string(b), true, err
	}
	return "", false, nil
}

// Types are the names of types that :types may give to a column.
var Types = []string{"boolean", "decimal", "instant", "json", "uuid"}

// convert converts the value of a column to one of Types; as = "" returns it unchanged.
func convert(v edn.Value, as string) (edn.Value, error) {
	if as == "" || v.IsNil() {
		return v, nil
	}
	out, err := reading[as](v)
	if err != nil {
		return v, fmt.Errorf("a value cannot be read as %s: %w", as, err)
	}
	return out, nil
}

var reading = map[string]func(edn.Value) (edn.Value, error){
	"boolean": func(v edn.Value) (edn.Value, error) {
		if n, ok := v.AsInt(); ok && (n == 0 || n == 1) {
			return edn.Bool(n == 1), nil
		}
		if v.IsBool() {
			return v, nil
		}
		return v, fmt.Errorf("expected 0 or 1, found %.40s", v)
	},
	"decimal": func(v edn.Value) (edn.Value, error) {
		switch {
		case v.IsDecimal():
			return v, nil
		case v.IsInt():
			return edn.ParseDecimal(v.String())
		}
		return fromText(v, edn.ParseDecimal)
	},
	"instant": func(v edn.Value) (edn.Value, error) {
		if v.IsInst() {
			return v, nil
		}
		return fromText(v, func(s string) (edn.Value, error) {
			t, err := time.Parse(time.RFC3339Nano, s)
			if err != nil || t.UTC().Year() < 1 || t.UTC().Year() > 9999 {
				return edn.Nil(), fmt.Errorf("expected an instant such as 2027-02-18T09:30:00.000Z, found %.40q", s)
			}
			return edn.Inst(t), nil
		})
	},
	"json": func(v edn.Value) (edn.Value, error) {
		if !v.IsString() {
			return v, nil // the database has read it
		}
		return fromText(v, func(s string) (edn.Value, error) { return edn.ReadJSON([]byte(s)) })
	},
	"uuid": func(v edn.Value) (edn.Value, error) {
		if v.IsUUID() {
			return v, nil
		}
		return fromText(v, ParseUUID)
	},
}

func fromText(v edn.Value, read func(string) (edn.Value, error)) (edn.Value, error) {
	s, ok := v.AsString()
	if !ok {
		return v, fmt.Errorf("expected text, found a %s", v.Kind())
	}
	return read(s)
}

// ParseUUID parses a UUID and returns it as a value.
func ParseUUID(s string) (edn.Value, error) {
	v, err := edn.ReadString(`#uuid "` + s + `"`)
	if err != nil || len(s) != 36 {
		return edn.Nil(), fmt.Errorf("expected a UUID, found %.40q", s)
	}
	return v, nil
}
