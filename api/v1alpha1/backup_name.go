package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// FinalizerBackup stands on a Backup whose data are deleted before it goes.
const FinalizerBackup = Group + "/backup"

// LabelSchedule stands on a Backup that a BackupSchedule has made, with its name. Its
// retention goes by it: a Backup without it is left alone.
const LabelSchedule = Group + "/schedule"

// The head of a name in the storage, such as 20261130-030017-s1a2b3c4d-: when it was
// made, in UTC; by a schedule or not; a hash.
const (
	nameTime      = "20060102-150405"
	nameScheduled = "s"
	nameAsked     = "m"
)

var headOfName = regexp.MustCompile(`^([0-9]{8}-[0-9]{6})-([` + nameScheduled + nameAsked + `])[0-9a-f]{8}-([a-z0-9].*)$`)

// StorageName is the name in the storage of a backup that is made for the object. It
// follows from the object, so that a controller that starts anew comes to the same.
//
// Medusa deletes by what a name begins with: to delete b1 deletes b10. Hence all
// names begin with a head of the same width that no two have in common, and none is
// the beginning of another. The rest is for people, and to give the object its name
// again when it is made anew from the storage. A hash is in the head as an object
// can be deleted and made again within a second, and as two clusters of Kubernetes
// may use the same prefix.
func (b *Backup) StorageName() string {
	sum := sha256.Sum256([]byte(string(b.UID) + "/" + b.Namespace + "/" + b.Name))
	by := nameAsked
	if b.Labels[LabelSchedule] != "" {
		by = nameScheduled
	}
	return b.CreationTimestamp.UTC().Format(nameTime) + "-" + by + hex.EncodeToString(sum[:4]) + "-" + b.Name
}

// NameParts is what a name in the storage tells.
//
// +kubebuilder:object:generate=false
type NameParts struct {
	Made      time.Time
	Object    string // the name of the Backup it was made for
	Scheduled bool   // by a BackupSchedule
	Schedule  string // its name, where the Backup is called after it and the time
}

// ParseStorageName tells what is in a name that StorageName has made; ok says whether
// it is one. One that is is the beginning of no other.
func ParseStorageName(name string) (parts NameParts, ok bool) {
	found := headOfName.FindStringSubmatch(name)
	if found == nil {
		return NameParts{}, false
	}
	made, err := time.Parse(nameTime, found[1])
	if err != nil {
		return NameParts{}, false
	}
	parts = NameParts{Made: made, Object: found[3], Scheduled: found[2] == nameScheduled}
	if at := len(parts.Object) - len("-"+nameTime); parts.Scheduled && at > 0 && parts.Object[at] == '-' {
		if _, err := time.Parse(nameTime, parts.Object[at+1:]); err == nil {
			parts.Schedule = parts.Object[:at]
		}
	}
	return parts, true
}

// maxBackupName is how long the name of a Backup may be; the CustomResourceDefinition
// has the same.
const maxBackupName = 63

var (
	goodName   = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	notInNames = regexp.MustCompile(`[^a-z0-9]+`)
)

// ObjectName is the name of the Backup for a backup that was found below a prefix: the
// one that it had, where it was made for an object; else its own, if an object can be
// called that. Where it cannot, or with apart, as another has taken the name, it ends
// in a hash of where the backup is.
func ObjectName(prefix, name string, apart bool) string {
	object := name
	if parts, ok := ParseStorageName(name); ok {
		object = parts.Object
	}
	if !apart && len(object) <= maxBackupName && goodName.MatchString(object) {
		return object
	}
	plain := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(object), "-"), "-")
	sum := sha256.Sum256([]byte(prefix + "/" + name))
	hash := hex.EncodeToString(sum[:4])
	const room = maxBackupName - len("-12345678")
	plain = strings.Trim(plain[:min(len(plain), room)], "-")
	if plain == "" {
		return "backup-" + hash
	}
	return plain + "-" + hash
}

// ErrPeriod says that a text is no Period.
var ErrPeriod = errors.New("it takes a number up to 9999 and h, d or w, such as 36h, 14d or 8w")

var goodPeriod = regexp.MustCompile(`^([1-9][0-9]{0,3})([hdw])$`)

// ParsePeriod reads a Period. Days have 24 hours.
func ParsePeriod(text string) (time.Duration, error) {
	found := goodPeriod.FindStringSubmatch(text)
	if found == nil {
		return 0, fmt.Errorf("%q: %w", text, ErrPeriod)
	}
	n, err := strconv.Atoi(found[1])
	if err != nil {
		return 0, fmt.Errorf("%q: %w", text, ErrPeriod)
	}
	unit := map[string]time.Duration{"h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour}[found[2]]
	return time.Duration(n) * unit, nil
}
