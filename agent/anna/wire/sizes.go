package wire

import (
	"iter"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
)

// KeySize is a key of a thread's report. Size is no size in bytes: it counts the
// elements of a set, and is 4294967295 after some PUTs. A hint at most.
type KeySize struct {
	Key  string
	Size uint32
}

// AppendKeySize writes one more key to a KeySizeData.
func AppendKeySize(b []byte, m KeySize) []byte {
	b = protowire.AppendTag(b, 1, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(bytesSize(1, len(m.Key))+numberSize(2, uint64(m.Size))))
	return appendNumber(appendText(b, 1, m.Key), 2, uint64(m.Size))
}

// KeySizes yields the keys of a KeySizeData in their order, without an allocation:
// a report of a million keys has 23 MB. A key aliases b: it is right as long as
// nobody writes to b, and it keeps all of b in memory: strings.Clone what is to be
// kept. An error is the last that is yielded.
func KeySizes(b []byte) iter.Seq2[KeySize, error] {
	return func(yield func(KeySize, error) bool) {
		for len(b) > 0 {
			f, n, err := next(b)
			if err != nil {
				yield(KeySize{}, err)
				return
			}
			b = b[n:]
			if f.number != 1 || f.kind != protowire.BytesType {
				continue
			}
			size, err := parseKeySize(f.bytes)
			if !yield(size, err) || err != nil {
				return
			}
		}
	}
}

func parseKeySize(b []byte) (KeySize, error) {
	var m KeySize
	for len(b) > 0 {
		f, n, err := next(b)
		if err != nil {
			return KeySize{}, err
		}
		b = b[n:]
		switch {
		case f.number == 1 && f.kind == protowire.BytesType:
			// Not a copy: see KeySizes.
			m.Key = unsafe.String(unsafe.SliceData(f.bytes), len(f.bytes))
		case f.number == 2 && f.kind == protowire.VarintType:
			m.Size = uint32(f.value)
		}
	}
	return m, nil
}
