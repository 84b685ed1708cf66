package wire

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// The bytes are those of protoc's encoding of Anna's .proto files, by hand.
func TestBytes(t *testing.T) {
	for _, test := range []struct {
		name string
		got  []byte
		want string
	}{
		{"get", (&KeyRequest{Kind: Get, Tuples: []Tuple{{Key: "k"}}, ResponseAddress: "tcp://h:1", ID: "i"}).Append(nil),
			"\x08\x01\x12\x03\x0a\x01k\x1a\x09tcp://h:1\x22\x01i"},
		{"put", (&KeyRequest{Kind: Put, Tuples: []Tuple{{Key: "k", Lattice: TypeSet, Payload: []byte("p"), AddressCacheSize: 300}}}).Append(nil),
			"\x08\x02\x12\x0b\x0a\x01k\x10\x02\x22\x01p\x28\xac\x02"},
		{"answer", (&KeyResponse{Kind: Get, Tuples: []Tuple{{Key: "k", Error: WrongThread, Invalidate: true}}, ID: "i", Error: Timeout}).Append(nil),
			"\x08\x01\x12\x07\x0a\x01k\x18\x02\x30\x01\x1a\x01i\x20\x03"},
		{"lookup", (&AddressRequest{ResponseAddress: "r", Keys: []string{"a", ""}, ID: "i"}).Append(nil), "\x0a\x01r\x12\x01a\x12\x00\x1a\x01i"},
		{"owners", (&AddressResponse{Addresses: []Addresses{{Key: "k", IPs: []string{"x", "y"}}}, Error: NoServers, ID: "i"}).Append(nil),
			"\x0a\x09\x0a\x01k\x12\x01x\x12\x01y\x10\x05\x1a\x01i"},
		{"members", (&Membership{Tiers: []TierServers{{Tier: Disk, Servers: []Server{{"p", "q"}}}}}).Append(nil),
			"\x0a\x0a\x08\x02\x12\x06\x0a\x01p\x12\x01q"},
		{"sizes", AppendKeySize(AppendKeySize(nil, KeySize{"k", 3}), KeySize{"", math.MaxUint32}),
			"\x0a\x05\x0a\x01k\x10\x03\x0a\x06\x10\xff\xff\xff\xff\x0f"},
		{"LWW", AppendLWW(nil, LWW{300, []byte("v")}), "\x08\xac\x02\x12\x01v"},
		{"empty LWW", AppendLWW(nil, LWW{}), ""},
		{"set", AppendSet(nil, Set{[][]byte{[]byte("a"), {}}}), "\x0a\x01a\x0a\x00"},
		{"single", AppendSingleCausal(nil, SingleCausal{Clock{"b": 0, "a": 1}, [][]byte{[]byte("v")}}),
			"\x0a\x05\x0a\x01a\x10\x01\x0a\x05\x0a\x01b\x10\x00\x12\x01v"},
		{"multi", AppendMultiCausal(nil, MultiCausal{Clock{"a": 1}, []Version{{"k", Clock{"b": 2}}}, [][]byte{[]byte("v")}}),
			"\x0a\x05\x0a\x01a\x10\x01\x12\x0a\x0a\x01k\x12\x05\x0a\x01b\x10\x02\x1a\x01v"},
		{"priority", AppendPriority(nil, Priority{-1, []byte("v")}), "\x09\x00\x00\x00\x00\x00\x00\xf0\xbf\x12\x01v"},
	} {
		if string(test.got) != test.want {
			t.Errorf("%s: %q, want %q", test.name, test.got, test.want)
		}
	}
}

func TestThereAndBack(t *testing.T) {
	tuple := Tuple{"k", TypeLWW, KeyDNE, []byte("p"), 2, true}
	back(t, KeyRequest{Put, []Tuple{tuple, {Key: "l"}}, "tcp://a:1", "id"}, (*KeyRequest).Append, ParseKeyRequest)
	back(t, KeyResponse{Get, []Tuple{tuple}, "id", LatticeError}, (*KeyResponse).Append, ParseKeyResponse)
	back(t, AddressRequest{"r", []string{"a", "b"}, "id"}, (*AddressRequest).Append, ParseAddressRequest)
	back(t, AddressResponse{[]Addresses{{"k", []string{"x"}}, {"", nil}}, Timeout, "id"}, (*AddressResponse).Append, ParseAddressResponse)
	back(t, Membership{[]TierServers{{Memory, []Server{{"a", "b"}, {"", ""}}}, {Tier: Disk}}}, (*Membership).Append, ParseMembership)
	back(t, LWW{1, []byte("v")}, appendsTo(AppendLWW), ParseLWW)
	back(t, Set{[][]byte{[]byte("b"), []byte("a")}}, appendsTo(AppendSet), ParseSet)
	back(t, SingleCausal{Clock{"a": 1}, [][]byte{[]byte("v")}}, appendsTo(AppendSingleCausal), ParseSingleCausal)
	back(t, MultiCausal{Clock{"a": 1}, []Version{{"k", Clock{"b": 1}}}, [][]byte{[]byte("v")}}, appendsTo(AppendMultiCausal), ParseMultiCausal)
	back(t, Priority{math.Inf(-1), []byte("v")}, appendsTo(AppendPriority), ParsePriority)
}

func appendsTo[T any](f func([]byte, T) []byte) func(*T, []byte) []byte {
	return func(m *T, b []byte) []byte { return f(b, *m) }
}

func back[T any](t *testing.T, m T, write func(*T, []byte) []byte, read func([]byte) (T, error)) {
	t.Helper()
	b := write(&m, nil)
	got, err := read(b)
	if err != nil || !reflect.DeepEqual(got, m) {
		t.Errorf("%T: %+v, %v, want %+v", m, got, err, m)
	}
	for i := range b { // cut anywhere: an error or less, no panic
		read(b[:i])
	}
	unknown := protowire.AppendVarint(protowire.AppendTag(slices.Clone(b), 99, protowire.VarintType), 1)
	if got, err := read(unknown); err != nil || !reflect.DeepEqual(got, m) {
		t.Errorf("%T with an unknown field: %+v, %v", m, got, err)
	}
	if _, err := read(append(slices.Clone(b), 0xff)); !errors.Is(err, ErrMalformed) {
		t.Errorf("%T with a torn end: %v", m, err)
	}
}

func TestRequestInPiecesIsTheSame(t *testing.T) {
	request := KeyRequest{Put, []Tuple{{Key: "a", Lattice: TypeSet, Payload: []byte("p")}, {Key: "b"}}, "tcp://a:1", "id"}
	b := AppendHead(nil, request.Kind, request.ResponseAddress, []byte(request.ID))
	for i := range request.Tuples {
		b = AppendTuple(b, &request.Tuples[i])
	}
	got, err := ParseKeyRequest(b)
	if err != nil || !reflect.DeepEqual(got, request) {
		t.Errorf("%+v, %v", got, err)
	}
	if size := request.Size(); size < len(b) {
		t.Errorf("size %d, it has %d", size, len(b))
	}
}

func TestScan(t *testing.T) {
	response := KeyResponse{Get, []Tuple{{Key: "a", Lattice: TypeSet, Payload: []byte("p")}, {Key: "b", Error: KeyDNE}}, "id", NoError}
	b := response.Append(nil)
	id, err := KeyResponseID(b)
	if err != nil || string(id) != "id" {
		t.Errorf("%q, %v", id, err)
	}
	var got []Tuple
	if err := ScanKeyResponse(b, func(r RawTuple) { got = append(got, r.tuple()) }); err != nil || !reflect.DeepEqual(got, response.Tuples) {
		t.Errorf("%+v, %v", got, err)
	}
	if n := testing.AllocsPerRun(100, func() {
		KeyResponseID(b)
		ScanKeyResponse(b, func(RawTuple) {})
	}); n > 0 {
		t.Errorf("%g allocations", n)
	}
}

func TestKeySizes(t *testing.T) {
	var b []byte
	want := []KeySize{{"a", 1}, {"b|c", 0}, {"", math.MaxUint32}}
	for _, size := range want {
		b = AppendKeySize(b, size)
	}
	var got []KeySize
	for size, err := range KeySizes(b) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, size)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	failed := false
	for _, err := range KeySizes(b[:len(b)-1]) {
		failed = errors.Is(err, ErrMalformed)
	}
	if !failed {
		t.Error("a torn list is not an error")
	}
	for range KeySizes(b) {
		break
	}
}

func TestNames(t *testing.T) {
	for _, l := range append(Lattices, None) {
		if got, err := ParseLattice(l.String()); err != nil || got != l || l.Known() != (l != None) {
			t.Errorf("%s: %d, %v", l, got, err)
		}
	}
	for _, tier := range []Tier{Memory, Disk, Routing} {
		if got, err := ParseTier(tier.String()); err != nil || got != tier {
			t.Errorf("%s: %d, %v", tier, got, err)
		}
	}
	for _, wrong := range []string{"", "memory", "TIER_UNSPECIFIED", "LWWW"} {
		if _, err := ParseTier(wrong); err == nil {
			t.Errorf("tier %q", wrong)
		}
		if _, err := ParseLattice(wrong); err == nil {
			t.Errorf("lattice %q", wrong)
		}
	}
	if Lattice(99).String() != "99" || Lattice(-1).String() != "-1" || Code(5).String() != "NO_SERVERS" || Put.String() != "PUT" {
		t.Error("names of numbers")
	}
}

func TestKeysOfAnna(t *testing.T) {
	s := Server{"pub", "priv"}
	for got, want := range map[string]string{
		SizeKey(s, 3, Memory):                  "ANNA_METADATA|size|pub|priv|3|MEMORY",
		SizeKey(s, 0, Disk):                    "ANNA_METADATA|size|pub|priv|0|DISK",
		ReplicationKey("a|b"):                  "ANNA_METADATA|replication|a|b",
		JoinMessage(Memory, s, 7):              "join:MEMORY:pub:priv:7",
		DepartMessage(Disk, s):                 "depart:DISK:pub:priv",
		PeerMessage(JoinMessage(Memory, s, 7)): "MEMORY:pub:priv:7",
		PeerMessage(DepartMessage(Disk, s)):    "DISK:pub:priv",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if !IsMetadata(SizeKey(s, 1, Disk)) || IsMetadata("ANNA_METADATAX|") || IsMetadata("x|ANNA_METADATA|") || !IsMetadata("ANNA_METADATA") {
		t.Error("which keys are Anna's own")
	}
}

func TestNotices(t *testing.T) {
	for text, want := range map[string]Notice{
		"join:MEMORY:a:b:12": {true, Memory, Server{"a", "b"}, 12},
		"depart:DISK:a:b":    {false, Disk, Server{"a", "b"}, 0},
	} {
		if got, err := ParseNotice(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "join", "join:MEMORY:a:b", "join:NOWHERE:a:b:1", "join:MEMORY:a:b:x", "depart:DISK:a:b:1", "leave:DISK:a:b", "join:MEMORY:fd00::1:b:1"} {
		if _, err := ParseNotice(text); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestAddresses(t *testing.T) {
	if got, err := Address("host", 6200); err != nil || got != "tcp://host:6200" {
		t.Error(got, err)
	}
	if host, port, err := ParseAddress("tcp://a.b:6201"); err != nil || host != "a.b" || port != 6201 {
		t.Error(host, port, err)
	}
	for _, wrong := range []string{"", "a:1", "tcp://a", "tcp://:1", "tcp://a:0", "tcp://a:65536", "tcp://a:x", "tcp://a b:1", "tcp://[fd00::1]:6200"} {
		if _, _, err := ParseAddress(wrong); err == nil {
			t.Errorf("%q is an address", wrong)
		}
	}
	if _, err := Address("fd00::1", 1); !errors.Is(err, ErrIPv6) {
		t.Error(err)
	}
	if _, _, err := ParseAddress("tcp://[fd00::1]:6200"); !errors.Is(err, ErrIPv6) {
		t.Error(err)
	}
}
