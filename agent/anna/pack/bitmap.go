package pack

import "math/bits"

// Bitmap tells which records of a pack are used: bit i%8 of byte i/8 is record i's. An
// empty one means all of them.
type Bitmap []byte

// NewBitmap has room for that many records, none of them used.
func NewBitmap(records int64) Bitmap { return make(Bitmap, (records+7)/8) }

// Has tells whether record i is used.
func (b Bitmap) Has(i int64) bool {
	if len(b) == 0 {
		return true
	}
	return i/8 < int64(len(b)) && b[i/8]&(1<<(i%8)) != 0
}

// Set marks record i as used. There has to be room for it.
func (b Bitmap) Set(i int64) { b[i/8] |= 1 << (i % 8) }

// Count is the number of used records in a pack of that many.
func (b Bitmap) Count(records int64) int64 {
	if len(b) == 0 {
		return records
	}
	var n int64
	for _, x := range b {
		n += int64(bits.OnesCount8(x))
	}
	return n
}
