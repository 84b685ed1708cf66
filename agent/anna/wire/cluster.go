package wire

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// AddressRequest asks a routing thread, port 6450+t, who owns keys. With more than
// one key the routing node drops all but one that it does not know yet.
type AddressRequest struct {
	ResponseAddress string
	Keys            []string
	ID              string
}

// Addresses are the threads that own a key, tcp://public:62xx.
type Addresses struct {
	Key string
	IPs []string
}

// AddressResponse answers an AddressRequest.
type AddressResponse struct {
	Addresses []Addresses
	Error     Code
	ID        string
}

// Server is a node by its two names: clients dial Public, peers Private; Private
// also places it on the ring.
type Server struct{ Public, Private string }

// TierServers are the nodes of one tier.
type TierServers struct {
	Tier    Tier
	Servers []Server
}

// Membership is who is in the cluster, alive or not (ClusterMembership).
type Membership struct {
	Tiers []TierServers
}

// Of are the nodes of a tier.
func (m *Membership) Of(tier Tier) []Server {
	var servers []Server
	for _, t := range m.Tiers {
		if t.Tier == tier {
			servers = append(servers, t.Servers...)
		}
	}
	return servers
}

// Append writes the message.
func (m *AddressRequest) Append(b []byte) []byte {
	b = appendText(b, 1, m.ResponseAddress)
	for _, key := range m.Keys {
		b = appendElement(b, 2, key)
	}
	return appendText(b, 3, m.ID)
}

// ParseAddressRequest reads the message.
func ParseAddressRequest(b []byte) (AddressRequest, error) {
	var m AddressRequest
	err := each(b, func(f field) error {
		switch f.number {
		case 1:
			f.text(&m.ResponseAddress)
		case 2:
			f.texts(&m.Keys)
		case 3:
			f.text(&m.ID)
		}
		return nil
	})
	return m, err
}

func (f field) texts(to *[]string) {
	if f.kind == protowire.BytesType {
		*to = append(*to, string(f.bytes))
	}
}

// Append writes the message, without a length.
func (m *Addresses) Append(b []byte) []byte {
	b = appendText(b, 1, m.Key)
	for _, ip := range m.IPs {
		b = appendElement(b, 2, ip)
	}
	return b
}

// ParseAddresses reads the message.
func ParseAddresses(b []byte) (Addresses, error) {
	var m Addresses
	err := each(b, func(f field) error {
		switch f.number {
		case 1:
			f.text(&m.Key)
		case 2:
			f.texts(&m.IPs)
		}
		return nil
	})
	return m, err
}

// Append writes the message.
func (m *AddressResponse) Append(b []byte) []byte {
	for i := range m.Addresses {
		b = appendElement(b, 1, m.Addresses[i].Append(nil))
	}
	b = appendNumber(b, 2, uint64(m.Error))
	return appendText(b, 3, m.ID)
}

// ParseAddressResponse reads the message.
func ParseAddressResponse(b []byte) (AddressResponse, error) {
	var m AddressResponse
	err := each(b, func(f field) error {
		switch {
		case f.number == 1 && f.kind == protowire.BytesType:
			addresses, err := ParseAddresses(f.bytes)
			m.Addresses = append(m.Addresses, addresses)
			return err
		case f.number == 2:
			m.Error = Code(f.value)
		case f.number == 3:
			f.text(&m.ID)
		}
		return nil
	})
	return m, err
}

// Append writes the message, without a length.
func (m *Server) Append(b []byte) []byte {
	return appendText(appendText(b, 1, m.Public), 2, m.Private)
}

// ParseServer reads the message.
func ParseServer(b []byte) (Server, error) {
	var m Server
	err := each(b, func(f field) error {
		switch f.number {
		case 1:
			f.text(&m.Public)
		case 2:
			f.text(&m.Private)
		}
		return nil
	})
	return m, err
}

// Append writes the message, without a length.
func (m *TierServers) Append(b []byte) []byte {
	b = appendNumber(b, 1, uint64(m.Tier))
	for i := range m.Servers {
		b = appendElement(b, 2, m.Servers[i].Append(nil))
	}
	return b
}

// ParseTierServers reads the message.
func ParseTierServers(b []byte) (TierServers, error) {
	var m TierServers
	err := each(b, func(f field) error {
		switch {
		case f.number == 1:
			m.Tier = Tier(f.value)
		case f.number == 2 && f.kind == protowire.BytesType:
			server, err := ParseServer(f.bytes)
			m.Servers = append(m.Servers, server)
			return err
		}
		return nil
	})
	return m, err
}

// Append writes the message.
func (m *Membership) Append(b []byte) []byte {
	for i := range m.Tiers {
		b = appendElement(b, 1, m.Tiers[i].Append(nil))
	}
	return b
}

// ParseMembership reads the message.
func ParseMembership(b []byte) (Membership, error) {
	var m Membership
	err := each(b, func(f field) error {
		if f.number != 1 || f.kind != protowire.BytesType {
			return nil
		}
		tier, err := ParseTierServers(f.bytes)
		m.Tiers = append(m.Tiers, tier)
		return err
	})
	return m, err
}
