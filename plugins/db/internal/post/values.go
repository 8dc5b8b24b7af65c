package post

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fermenthq/ferment/plugins/db/internal/result"
	"github.com/fermenthq/ferment/sdk/edn"
)

// typeNames are the names of the types that are known by number.
var typeNames = map[uint32]string{
	oidBool: "boolean", oidBytes: "bytea", oidInt8: "bigint", oidInt2: "smallint", oidInt4: "integer", oidText: "text",
	oidOID: "oid", oidJSON: "json", oidFloat4: "real", oidFloat8: "double precision", oidChar: "char", oidName: "name",
	oidBPChar: "character", oidVarchar: "character varying", oidDate: "date", oidTime: "time", oidTimestamp: "timestamp",
	oidInstant: "timestamptz", oidInterval: "interval", oidNumeric: "numeric", oidUUID: "uuid", oidJSONB: "jsonb",
}

const (
	oidBool      = 16
	oidBytes     = 17
	oidChar      = 18
	oidName      = 19
	oidInt8      = 20
	oidInt2      = 21
	oidInt4      = 23
	oidText      = 25
	oidOID       = 26
	oidJSON      = 114
	oidFloat4    = 700
	oidFloat8    = 701
	oidBPChar    = 1042
	oidVarchar   = 1043
	oidDate      = 1082
	oidTime      = 1083
	oidTimestamp = 1114
	oidInstant   = 1184
	oidInterval  = 1186
	oidNumeric   = 1700
	oidUUID      = 2950
	oidJSONB     = 3802
)

// read converts the text form of a value of type oid. A value of an unknown type is returned as
// text.
func read(oid uint32, text []byte) (edn.Value, error) {
	if text == nil {
		return edn.Nil(), nil
	}
	s := string(text)
	switch oid {
	case oidBool:
		return edn.Bool(s == "t"), nil
	case oidInt2, oidInt4, oidInt8, oidOID:
		n, err := strconv.ParseInt(s, 10, 64)
		return edn.Int(n), err
	case oidFloat4, oidFloat8:
		bits := 64
		if oid == oidFloat4 {
			bits = 32 // the shortest text of a real is not that of a double
		}
		if _, err := strconv.ParseFloat(s, bits); err != nil {
			return edn.Nil(), err
		}
		x, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return edn.Nil(), err
		}
		v, err := edn.Float(x)
		if err != nil {
			return edn.Nil(), fmt.Errorf("the value %s cannot be represented; read it with CAST AS text", s)
		}
		return v, nil
	case oidNumeric:
		v, err := edn.ParseDecimal(s)
		if err != nil {
			return edn.Nil(), fmt.Errorf("the value %s cannot be represented; read it with CAST AS text", s)
		}
		return v, nil
	case oidBytes:
		b, err := hex.DecodeString(strings.TrimPrefix(s, `\x`))
		return result.Bytes(b), err
	case oidInstant:
		t, err := time.Parse("2006-01-02 15:04:05.999999999-07", s)
		if err != nil || t.Year() < 1 || t.Year() > 9999 {
			return edn.Nil(), fmt.Errorf("the value %s cannot be represented; read it with CAST AS text", s)
		}
		return edn.Inst(t), nil
	case oidUUID:
		return result.ParseUUID(s)
	case oidJSON, oidJSONB:
		return edn.ReadJSON(text)
	}
	return edn.String(s)
}

// write returns the text form of a parameter of type oid, nil for NULL.
func write(oid uint32, v edn.Value) ([]byte, error) {
	if v.IsNil() {
		return nil, nil
	}
	if s, ok := v.AsString(); ok { // the server reads it as what it needs
		return []byte(s), nil
	}
	for _, w := range writers {
		if text, ok, err := w.text(v); ok || err != nil {
			if !slices.Contains(w.types, oid) {
				return nil, fmt.Errorf("a %s is not a value of type %s", v.Kind(), typeName(oid))
			}
			return []byte(text), err
		}
	}
	return nil, fmt.Errorf("a %s cannot be the value of an SQL parameter", v.Kind())
}

func typeName(oid uint32) string {
	if name, ok := typeNames[oid]; ok {
		return name
	}
	return fmt.Sprintf("number %d", oid)
}

// numbers are the types that an integer fits.
var numbers = []uint32{oidInt2, oidInt4, oidInt8, oidOID, oidNumeric, oidFloat4, oidFloat8}

// writers are the kinds of values with types of their own, and the types that each fits.
var writers = []struct {
	types []uint32
	text  func(edn.Value) (string, bool, error)
}{
	{[]uint32{oidBool}, func(v edn.Value) (string, bool, error) {
		b, ok := v.AsBool()
		return strconv.FormatBool(b), ok, nil
	}},
	{numbers, func(v edn.Value) (string, bool, error) {
		return strings.TrimSuffix(v.String(), "N"), v.IsInt(), nil
	}},
	{[]uint32{oidNumeric}, func(v edn.Value) (string, bool, error) {
		return strings.TrimSuffix(v.String(), "M"), v.IsDecimal(), nil
	}},
	{[]uint32{oidFloat4, oidFloat8}, func(v edn.Value) (string, bool, error) {
		x, ok := v.AsFloat()
		return strconv.FormatFloat(x, 'g', -1, 64), ok, nil
	}},
	{[]uint32{oidInstant}, func(v edn.Value) (string, bool, error) {
		t, ok := v.AsInst()
		return t.Format(time.RFC3339Nano), ok, nil
	}},
	{[]uint32{oidUUID}, func(v edn.Value) (string, bool, error) {
		u, ok := v.AsUUID()
		return result.UUIDText(u), ok, nil
	}},
	{[]uint32{oidBytes}, func(v edn.Value) (string, bool, error) {
		b, ok := result.AsBytes(v)
		return `\x` + hex.EncodeToString(b), ok, nil
	}},
	{[]uint32{oidJSON, oidJSONB}, result.JSON},
}
