set -o errexit
/usr/local/pai/runtime sshd true custom 'ssh-rsa AAAAUSERKEY u@h
ssh-rsa AAAAKEY1 me@host'
/usr/local/pai/runtime ssh-barrier 30
