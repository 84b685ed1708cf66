package wire

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// Tuple is a key with what is said of it: its type and value in a PUT and in the
// answer to a GET, an error in an answer.
type Tuple struct {
	Key     string
	Lattice Lattice
	Error   Code
	Payload []byte // aliases the message it was read from
	// AddressCacheSize is how many owners the client knows; where Anna knows of
	// another number its answer has Invalidate. 0 does not ask for it.
	AddressCacheSize uint32
	Invalidate       bool
}

// KeyRequest is sent to a KVS thread's port 6200+tid.
type KeyRequest struct {
	Kind   Kind
	Tuples []Tuple
	// ResponseAddress is what the server connects to, tcp://host:port. Each distinct
	// one costs the server a socket for the rest of its life.
	ResponseAddress string
	ID              string
}

// KeyResponse answers a KeyRequest, with all its tuples or with some of them: a
// server answers a key whose replication it had to ask for in a response of its own.
type KeyResponse struct {
	Kind   Kind
	Tuples []Tuple
	ID     string
	Error  Code // never set by a server
}

func (t *Tuple) size() int {
	size := bytesSize(1, len(t.Key)) + numberSize(2, uint64(t.Lattice)) + numberSize(3, uint64(t.Error)) +
		bytesSize(4, len(t.Payload)) + numberSize(5, uint64(t.AddressCacheSize))
	if t.Invalidate {
		size += numberSize(6, 1)
	}
	return size
}

// Append writes the tuple, without a length.
func (t *Tuple) Append(b []byte) []byte {
	b = appendText(b, 1, t.Key)
	b = appendNumber(b, 2, uint64(t.Lattice))
	b = appendNumber(b, 3, uint64(t.Error))
	b = appendBytes(b, 4, t.Payload)
	b = appendNumber(b, 5, uint64(t.AddressCacheSize))
	if t.Invalidate {
		b = appendNumber(b, 6, 1)
	}
	return b
}

// ParseTuple reads a tuple without its length.
func ParseTuple(b []byte) (Tuple, error) {
	raw, err := parseRaw(b)
	return raw.tuple(), err
}

func appendTuples(b []byte, tuples []Tuple) []byte {
	for i := range tuples {
		b = AppendTuple(b, &tuples[i])
	}
	return b
}

// Size is about how many bytes Append writes, and never fewer.
func (m *KeyRequest) Size() int {
	size := 64 + len(m.ResponseAddress) + len(m.ID)
	for i := range m.Tuples {
		size += m.Tuples[i].size() + 11
	}
	return size
}

// Append writes the message.
func (m *KeyRequest) Append(b []byte) []byte {
	b = appendNumber(b, 1, uint64(m.Kind))
	b = appendTuples(b, m.Tuples)
	b = appendText(b, 3, m.ResponseAddress)
	return appendText(b, 4, m.ID)
}

// ParseKeyRequest reads the message.
func ParseKeyRequest(b []byte) (KeyRequest, error) {
	var m KeyRequest
	err := each(b, func(f field) error {
		switch f.number {
		case 1:
			m.Kind = Kind(f.value)
		case 2:
			return f.tuple(&m.Tuples)
		case 3:
			f.text(&m.ResponseAddress)
		case 4:
			f.text(&m.ID)
		}
		return nil
	})
	return m, err
}

// Append writes the message.
func (m *KeyResponse) Append(b []byte) []byte {
	b = appendNumber(b, 1, uint64(m.Kind))
	b = appendTuples(b, m.Tuples)
	b = appendText(b, 3, m.ID)
	return appendNumber(b, 4, uint64(m.Error))
}

// ParseKeyResponse reads the message. See ScanKeyResponse for one without
// allocations.
func ParseKeyResponse(b []byte) (KeyResponse, error) {
	var m KeyResponse
	err := each(b, func(f field) error {
		switch f.number {
		case 1:
			m.Kind = Kind(f.value)
		case 2:
			return f.tuple(&m.Tuples)
		case 3:
			f.text(&m.ID)
		case 4:
			m.Error = Code(f.value)
		}
		return nil
	})
	return m, err
}

func (f field) tuple(to *[]Tuple) error {
	if f.kind != protowire.BytesType {
		return nil
	}
	tuple, err := ParseTuple(f.bytes)
	*to = append(*to, tuple)
	return err
}

// RawTuple is a Tuple whose key, too, aliases the message.
type RawTuple struct {
	Key        []byte
	Lattice    Lattice
	Error      Code
	Payload    []byte
	CacheSize  uint32
	Invalidate bool
}

func (r *RawTuple) tuple() Tuple {
	return Tuple{string(r.Key), r.Lattice, r.Error, r.Payload, r.CacheSize, r.Invalidate}
}

func parseRaw(b []byte) (RawTuple, error) {
	var t RawTuple
	for len(b) > 0 {
		f, n, err := next(b)
		if err != nil {
			return t, err
		}
		b = b[n:]
		switch {
		case f.number == 1 && f.kind == protowire.BytesType:
			t.Key = f.bytes
		case f.number == 4 && f.kind == protowire.BytesType:
			t.Payload = f.bytes
		case f.kind != protowire.VarintType:
		case f.number == 2:
			t.Lattice = Lattice(f.value)
		case f.number == 3:
			t.Error = Code(f.value)
		case f.number == 5:
			t.CacheSize = uint32(f.value)
		case f.number == 6:
			t.Invalidate = f.value != 0
		}
	}
	return t, nil
}

// KeyResponseID finds the id of a KeyResponse, whatever else is wrong with its
// tuples. The id aliases b.
func KeyResponseID(b []byte) ([]byte, error) {
	var id []byte
	for len(b) > 0 {
		f, n, err := next(b)
		if err != nil {
			return nil, err
		}
		if f.number == 3 && f.kind == protowire.BytesType {
			id = f.bytes
		}
		b = b[n:]
	}
	return id, nil
}

// ScanKeyResponse calls visit for each tuple of a KeyResponse, without an
// allocation. Tuples before a malformed one have been visited.
func ScanKeyResponse(b []byte, visit func(RawTuple)) error {
	for len(b) > 0 {
		f, n, err := next(b)
		if err != nil {
			return err
		}
		b = b[n:]
		if f.number != 2 || f.kind != protowire.BytesType {
			continue
		}
		tuple, err := parseRaw(f.bytes)
		if err != nil {
			return err
		}
		visit(tuple)
	}
	return nil
}

// AppendHead writes all of a KeyRequest but the tuples, AppendTuple one tuple more:
// a request is written without a slice of Tuples.
func AppendHead(b []byte, kind Kind, responseAddress string, id []byte) []byte {
	b = appendNumber(b, 1, uint64(kind))
	b = appendText(b, 3, responseAddress)
	return appendBytes(b, 4, id)
}

// AppendTuple writes one tuple of a KeyRequest or KeyResponse.
func AppendTuple(b []byte, tuple *Tuple) []byte {
	b = protowire.AppendTag(b, 2, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(tuple.size()))
	return tuple.Append(b)
}
