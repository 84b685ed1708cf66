// Package pack is the file format of the records of a backup of Anna.
//
// A pack begins with eight bytes, the last of them its version, then come frames:
//
//	4 bytes  size of the frame's body; its highest bit set: an S2 block, else a zstd frame
//	4 bytes  size of the body when it is decompressed; at the pack's end 0xffffffff
//	4 bytes  number of records in it; 0xffffffff where its only record goes on in the next
//	4 bytes  CRC-32C of the frame's number (8 bytes), the twelve bytes above and the body
//	         body: one zstd frame or S2 block; at the end the number of all records (8 bytes)
//
// and nothing after the end. Numbers are little-endian. A record is three values: the key
// with its length before it, its lattice type, its payload with its length before it;
// lengths and type are varints as protobuf has them.
//
// Every flipped bit, and an end at any other place, is found while reading, before a
// record of the frame is given away.
package pack

import "github.com/stategraft/stategraft/agent/anna/wire"

const (
	magic = "SGANNA\x00\x01"

	// FrameSize is the size of a frame before compression, in bytes, at most.
	FrameSize = 1 << 20

	headSize      = 16
	endOfPack     = 0xffffffff
	goesOn        = 0xffffffff
	quick         = 1 << 31                  // in the size of a body: it is an S2 block
	largestStored = FrameSize + FrameSize/16 // zstd adds three bytes to a block of 128 kB that it cannot compress
)

// Record is a key's value as Anna has answered it.
type Record struct {
	Key     string
	Lattice wire.Lattice
	Payload []byte // the message of that lattice, as it stands in a KeyTuple
}
