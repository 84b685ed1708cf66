package retention

import (
	"fmt"
	"strings"
	"time"
)

// message is a decision in a sentence. Kept is empty for what is deleted.
func (k *keeper) message(it Item, kept []why) string {
	if len(kept) > 0 {
		texts := make([]string, len(kept))
		for i, w := range kept {
			texts[i] = w.text
		}
		return "kept: " + strings.Join(texts, "; ")
	}
	if !whole(it) {
		return fmt.Sprintf("deleted: not complete, of %s, more than %s ago, and a newer one is complete", k.say(it.When), period(k.policy.Incomplete))
	}
	return fmt.Sprintf("deleted: of %s, and not among %s", k.say(it.When), k.rulesText())
}

// rulesText says what the rules keep.
func (k *keeper) rulesText() string {
	var texts []string
	for _, rule := range []struct {
		n    int
		text string
	}{
		{k.policy.Last, "the last %d"}, {k.policy.Daily, "the last of %d days"},
		{k.policy.Weekly, "the last of %d weeks"}, {k.policy.Monthly, "the last of %d months"},
	} {
		if rule.n > 0 {
			texts = append(texts, fmt.Sprintf(rule.text, rule.n))
		}
	}
	if k.policy.Within > 0 {
		texts = append(texts, "those of "+period(k.policy.Within))
	}
	return strings.Join(texts, ", ")
}

func (k *keeper) say(t time.Time) string {
	return t.In(k.policy.Zone).Format("2006-01-02 15:04 MST")
}

// period is a duration as it is written in a BackupRetention, where it can be.
func period(d time.Duration) string {
	switch {
	case d >= day && d%day == 0:
		return fmt.Sprintf("%dd", d/day)
	case d >= time.Hour && d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return d.String()
}

// few are the first of some names.
func few(names []string) string {
	if len(names) <= 3 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:3], ", "), len(names)-3)
}
