package store

import (
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"math"
	"os"
)

// pageFile reads rows from the pages of a SQLite database, whose file format is documented and
// stable. It needs neither the first page nor the B-trees, so a damaged page loses only the rows in
// it. The rows can be outdated or wrong: the caller must verify chain values and hashes.
type pageFile struct {
	db, log *os.File // nil: the file is missing
	pages   int64
	logged  map[int64]int64 // offset in the log of each page that a committed transaction wrote
}

// openPages opens the file of a database, which no process may have open.
func openPages(path string) (*pageFile, error) {
	f := &pageFile{logged: map[int64]int64{}}
	db, err := os.Open(path)
	switch {
	case err == nil:
		f.db = db
		var info os.FileInfo
		if info, err = db.Stat(); err == nil {
			f.pages = (info.Size() + pageSize - 1) / pageSize
		}
	case errors.Is(err, fs.ErrNotExist): // the log may be there
		err = nil
	}
	if err == nil {
		f.log, err = os.Open(path + "-wal")
	}
	if err == nil {
		f.readLog()
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

func (f *pageFile) close() error {
	var errs []error
	for _, file := range []*os.File{f.db, f.log} {
		if file != nil {
			errs = append(errs, file.Close())
		}
	}
	return errors.Join(errs...)
}

// Sizes and offsets in a write-ahead log.
const (
	logHeader   = 32
	frameHeader = 24
	logSalts    = 16 // offset of the 8 bytes that each frame repeats
)

// readLog sets logged to the pages of the log up to its last commit. The first frame with wrong
// salts or checksum is the end of the log.
func (f *pageFile) readLog() {
	head := make([]byte, logHeader)
	if _, err := f.log.ReadAt(head, 0); err != nil {
		return
	}
	sum := logSum{order: binary.LittleEndian}
	switch binary.BigEndian.Uint32(head) {
	case 0x377f0682:
	case 0x377f0683:
		sum.order = binary.BigEndian
	default:
		return
	}
	if sum.add(head[:24]); !sum.is(head[24:]) {
		return
	}
	found := map[int64]int64{}
	frame := make([]byte, frameHeader+pageSize)
	for at := int64(logHeader); ; at += int64(len(frame)) {
		if _, err := f.log.ReadAt(frame, at); err != nil {
			return
		}
		sum.add(frame[:8])
		sum.add(frame[frameHeader:])
		if string(frame[8:16]) != string(head[logSalts:logSalts+8]) || !sum.is(frame[16:]) {
			return
		}
		found[int64(binary.BigEndian.Uint32(frame))] = at + frameHeader
		if size := binary.BigEndian.Uint32(frame[4:]); size > 0 { // a commit
			for page, at := range found {
				f.logged[page] = at
			}
			clear(found)
			f.pages = max(f.pages, int64(size))
		}
	}
}

// logSum is the running checksum of a write-ahead log.
type logSum struct {
	order binary.ByteOrder
	a, b  uint32
}

func (s *logSum) add(text []byte) {
	for ; len(text) >= 8; text = text[8:] {
		s.a += s.order.Uint32(text) + s.b
		s.b += s.order.Uint32(text[4:]) + s.a
	}
}

func (s *logSum) is(text []byte) bool {
	return binary.BigEndian.Uint32(text) == s.a && binary.BigEndian.Uint32(text[4:]) == s.b
}

// page returns the page with number n, nil if it cannot be read. If the file ends within the page,
// the remaining bytes are zero.
func (f *pageFile) page(n int64) []byte {
	if n < 1 || n > f.pages {
		return nil
	}
	from, at := f.db, (n-1)*pageSize
	if logged, ok := f.logged[n]; ok {
		from, at = f.log, logged
	}
	page := make([]byte, pageSize)
	if read, _ := from.ReadAt(page, at); read == 0 {
		return nil
	}
	return page
}

// free reports whether the pointer map says that SQLite does not use page n. maps caches the last
// page of the map.
func (f *pageFile) free(n int64, maps map[int64][]byte) bool {
	const entry, free = 5, 2
	const mapped = pageSize/entry + 1 // a page of the map, and the pages after it that it describes
	at := (n-2)/mapped*mapped + 2
	if n <= 2 || n == at {
		return false
	}
	page, ok := maps[at]
	if !ok {
		page = f.page(at)
		clear(maps) // cache only the last page of the map
		maps[at] = page
	}
	return page != nil && page[(n-at-1)*entry] == free
}

// rows calls each for all cells that look like rows of a known table. A row can occur several
// times: first come the pages in use, then those that SQLite has freed.
func (f *pageFile) rows(ctx context.Context, each func(table string, row []any) error) error {
	maps := map[int64][]byte{}
	for _, free := range []bool{false, true} {
		for n := int64(1); n <= f.pages; n++ {
			if err := ctx.Err(); err != nil {
				return err
			}
			if f.free(n, maps) != free {
				continue
			}
			if err := f.leaf(n, each); err != nil {
				return err
			}
		}
	}
	return nil
}

// leaf calls each for the rows of page n; it does nothing if n is not a leaf page of a table.
func (f *pageFile) leaf(n int64, each func(table string, row []any) error) error {
	const leaf, header, firstHeader = 0x0d, 8, 100
	page, start := f.page(n), 0
	if n == 1 {
		start = firstHeader
	}
	if page == nil || page[start] != leaf {
		return nil
	}
	cells := page[start+header:]
	count := min(int(binary.BigEndian.Uint16(page[start+3:])), len(cells)/2)
	for i := range count {
		at := int(binary.BigEndian.Uint16(cells[2*i:]))
		if at >= pageSize {
			continue
		}
		row := f.row(page[at:])
		for table, columns := range tableColumns {
			if fits(row, columns) {
				if err := each(table, row); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// tableColumns are the columns of the tables that a repair reads: k is the number
// of the row, h a hash, b bytes, B bytes or NULL, e bytes or empty text, i an integer and t
// text.
var tableColumns = map[string]string{
	"runs":          "kttiihiiiitttttiiii",
	"records":       "khb",
	"content":       "khiiiB",
	"counters":      "kttittt",
	"sessions":      "kttiiiiiiit",
	"session_vars":  "kitib",
	"session_turns": "kittti",
	"learned":       "kttt",
	"host_records":  "kitihb",
	"host_head":     "ih",
	"host_tail":     "hi",
	"action_keys":   "kttiei",

	"conversations":         "ktttiiiiit",
	"conversation_path":     "kiiiiiii",
	"conversation_spans":    "kiti",
	"conversation_messages": "kiiit",
	"conversation_content":  "khib",
	"conversation_commits":  "kiitti",
	"conversation_drafts":   "kittbi",
}

func fits(row []any, columns string) bool {
	if len(row) != len(columns) {
		return false
	}
	for i, value := range row {
		ok := false
		switch v := value.(type) {
		case nil:
			ok = columns[i] == 'B'
		case int64:
			ok = columns[i] == 'i' || columns[i] == 'k' && v > 0
		case string:
			ok = columns[i] == 't' || columns[i] == 'e' && v == ""
		case []byte:
			ok = columns[i] == 'b' || columns[i] == 'B' || columns[i] == 'e' || columns[i] == 'h' && len(v) == len(sum{})
		}
		if !ok {
			return false
		}
	}
	return true
}

// maxPayload is larger than any row of the store.
const maxPayload = maxRecord + maxRow

// row decodes a cell to the number of the row and its columns. It returns nil for bytes that are
// not a cell.
func (f *pageFile) row(cell []byte) []any {
	size, n := varint(cell)
	id, m := varint(cell[n:])
	if n == 0 || m == 0 || size < 1 || size > maxPayload {
		return nil
	}
	payload := f.payload(cell[n+m:], int(size))
	length, n := varint(payload)
	if n == 0 || length < int64(n) || length > int64(len(payload)) {
		return nil
	}
	types, body := payload[n:length], payload[length:]
	var row []any
	for len(types) > 0 {
		kind, n := varint(types)
		if n == 0 {
			return nil
		}
		value, size := column(kind, body)
		if size < 0 {
			return nil
		}
		row, types, body = append(row, value), types[n:], body[size:]
	}
	if len(row) > 0 && row[0] == nil {
		row[0] = id // the column that is the number of the row is stored as NULL
	}
	return row
}

// payload returns the size bytes of a row. The part that does not fit into its page is in a list of
// overflow pages. It returns nil if one of them cannot be read.
func (f *pageFile) payload(local []byte, size int) []byte {
	const most, least = pageSize - 35, (pageSize-12)*32/255 - 23
	keep := size
	if size > most {
		if keep = least + (size-least)%(pageSize-4); keep > most {
			keep = least
		}
		if len(local) < keep+4 {
			return nil
		}
	}
	if len(local) < keep {
		return nil
	}
	out := append(make([]byte, 0, size), local[:keep]...)
	for link := local[keep:]; len(out) < size; {
		page := f.page(int64(binary.BigEndian.Uint32(link)))
		if page == nil {
			return nil
		}
		out = append(out, page[4:min(pageSize, 4+size-len(out))]...)
		link = page
	}
	return out
}

// column decodes a value by its type and returns its size; -1 if body is too short or no column of
// the store has the type.
func column(kind int64, body []byte) (any, int) {
	size := 0
	switch {
	case kind == 0:
		return nil, 0
	case kind == 8, kind == 9:
		return kind - 8, 0
	case kind >= 1 && kind <= 4:
		size = int(kind)
	case kind == 5:
		size = 6
	case kind == 6:
		size = 8
	case kind >= 12 && kind <= math.MaxInt32:
		size = int(kind-12) / 2
	default:
		return nil, -1
	}
	switch {
	case size > len(body):
		return nil, -1
	case kind >= 12 && kind%2 == 0:
		return body[:size:size], size
	case kind >= 12:
		return string(body[:size]), size
	}
	n := int64(int8(body[0]))
	for _, b := range body[1:size] {
		n = n<<8 | int64(b)
	}
	return n, size
}

// varint decodes an integer of 1 to 9 bytes and returns its size; 0 if from ends within it.
func varint(from []byte) (n int64, size int) {
	for i, b := range from[:min(9, len(from))] {
		if i == 8 {
			return n<<8 | int64(b), 9
		}
		n = n<<7 | int64(b&0x7f)
		if b < 0x80 {
			return n, i + 1
		}
	}
	return 0, 0
}
