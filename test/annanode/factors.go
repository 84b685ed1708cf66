package annanode

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

// keyFactors is a ReplicationFactor: the factors of one key, for some tiers.
type keyFactors struct {
	key           string
	global, local map[wire.Tier]uint32
}

// over sets those factors that are given.
func (k *keyFactors) over(f factors) factors {
	for tier, n := range k.global {
		f.global[tier] = n
	}
	for tier, n := range k.local {
		f.local[tier] = n
	}
	return f
}

// parseFactors reads a ReplicationFactor, parseUpdate a ReplicationFactorUpdate.
func parseFactors(b []byte) keyFactors {
	k := keyFactors{global: map[wire.Tier]uint32{}, local: map[wire.Tier]uint32{}}
	fields(b, func(number protowire.Number, value []byte, _ uint64) {
		switch number {
		case 1:
			k.key = string(value)
		case 2:
			parseFactor(value, k.global)
		case 3:
			parseFactor(value, k.local)
		}
	})
	return k
}

func parseFactor(b []byte, to map[wire.Tier]uint32) {
	var tier wire.Tier
	var n uint32
	fields(b, func(number protowire.Number, _ []byte, value uint64) {
		switch number {
		case 1:
			tier = wire.Tier(value)
		case 2:
			n = uint32(value)
		}
	})
	if tier == wire.Memory || tier == wire.Disk {
		to[tier] = n
	}
}

func parseUpdate(b []byte) []keyFactors {
	var all []keyFactors
	fields(b, func(number protowire.Number, value []byte, _ uint64) {
		if number == 1 {
			all = append(all, parseFactors(value))
		}
	})
	return all
}

// AppendFactors writes a ReplicationFactor, the value under wire.ReplicationKey.
func AppendFactors(b []byte, key string, r Replication) []byte {
	b = protowire.AppendString(protowire.AppendTag(b, 1, protowire.BytesType), key)
	add := func(number protowire.Number, tier wire.Tier, n int) {
		var v []byte
		v = protowire.AppendVarint(protowire.AppendTag(v, 1, protowire.VarintType), uint64(tier))
		v = protowire.AppendVarint(protowire.AppendTag(v, 2, protowire.VarintType), uint64(n))
		b = protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), v)
	}
	add(2, wire.Memory, r.Memory)
	add(2, wire.Disk, r.Disk)
	add(3, wire.Memory, r.Local)
	add(3, wire.Disk, r.Local)
	return b
}

// parseStrings reads a StringSet.
func parseStrings(b []byte) []string {
	var all []string
	fields(b, func(number protowire.Number, value []byte, _ uint64) {
		if number == 1 {
			all = append(all, string(value))
		}
	})
	return all
}

// fields calls visit for each field until one cannot be read.
func fields(b []byte, visit func(number protowire.Number, bytes []byte, value uint64)) {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return
		}
		b = b[n:]
		size := protowire.ConsumeFieldValue(number, kind, b)
		if size < 0 {
			return
		}
		switch kind {
		case protowire.BytesType:
			v, _ := protowire.ConsumeBytes(b)
			visit(number, v, 0)
		case protowire.VarintType:
			v, _ := protowire.ConsumeVarint(b)
			visit(number, nil, v)
		}
		b = b[size:]
	}
}
