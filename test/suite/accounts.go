// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// Accounts are the portal accounts of a suite. Each account has one user for each name.
type Accounts struct {
	size  int
	names []string
	used  atomic.Int32
}

// NewAccounts returns accounts whose users have the given names.
func NewAccounts(size int, names ...string) *Accounts { return &Accounts{size: size, names: names} }

// Next returns the number of an account that no test uses yet.
func (a *Accounts) Next(t *testing.T) int {
	t.Helper()
	i := int(a.used.Add(1)) - 1
	if i >= a.size {
		t.Fatal("more tests than accounts: raise the number of accounts")
	}
	return i
}

// Users returns the users of all accounts.
func (a *Accounts) Users() (all []emulator.User) {
	for i := range a.size {
		for _, name := range a.names {
			all = append(all, User(name, i))
		}
	}
	return all
}

// User returns the user with the name in an account.
func User(name string, account int) emulator.User {
	return emulator.User{
		ID: fmt.Sprintf("%s-%d", name, account), Email: fmt.Sprintf("%s-%d@portal.example", name, account),
		Password: fmt.Sprintf("password of %s %d", name, account), Account: fmt.Sprintf("account-%d", account), Role: emulator.RoleAdministrator,
	}
}
