package retention

import (
	"fmt"
	"strings"
)

// dataFolder is where Medusa keeps the files of all differential backups of a node,
// next to the folders of the backups themselves: NODE/data beside NODE/BACKUP. It
// lists folders by the beginning of their path, without a slash at the end. So the
// deletion of backup b1 deletes b10 as well, that of a backup named "da" the data of
// all; and each deletion, which clears NODE/data of files that no backup refers to,
// takes NODE/database-1/… to be such files.
const dataFolder = "data"

// SafeName tells whether a backup of that name can be made, as far as deletions of
// others go: none would take it along, and its own not all data.
func SafeName(name string) bool {
	return name != "" && !strings.HasPrefix(name, dataFolder) && !strings.HasPrefix(dataFolder, name)
}

// takenAlong says what the deletion of an item would delete besides; "" if nothing.
// Names of one width are never each other's beginnings.
func takenAlong(items []Item, i int) string {
	name := items[i].Name
	if strings.HasPrefix(dataFolder, name) {
		return fmt.Sprintf("its deletion would delete the data of all backups: its name is the beginning of Medusa's folder %s", dataFolder)
	}
	for j, other := range items {
		switch {
		case j == i:
		case other.Name == name:
			return "there are two of its name"
		case strings.HasPrefix(other.Name, name):
			return fmt.Sprintf("its deletion would delete %s too: its name is the beginning of that one's", other.Name)
		}
	}
	return ""
}
