package adopted

import (
	"fmt"
	"math/bits"
	"testing"
)

func TestOneProcessor(t *testing.T) {
	all := processors{0: 0b1011, 3: 1 << 63}
	seen := map[processors]bool{}
	for i := range 200 {
		pod := fmt.Sprintf("pod-%d", i)
		one := all.one(pod)
		count := 0
		for j, word := range one {
			count += bits.OnesCount64(word)
			if word&^all[j] != 0 {
				t.Fatalf("%v is not among %v", one, all)
			}
		}
		if count != 1 || one != all.one(pod) {
			t.Fatalf("%d processors: %v", count, one)
		}
		seen[one] = true
	}
	if len(seen) != 4 {
		t.Errorf("%d of 4 processors are used", len(seen))
	}
	if none := (processors{}).one("x"); none != (processors{}) {
		t.Errorf("of none, %v", none)
	}
}
