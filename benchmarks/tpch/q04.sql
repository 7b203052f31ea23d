SELECT o_orderpriority, COUNT(*) AS order_count
FROM orders
LEFT SEMI JOIN (SELECT l_orderkey FROM lineitem WHERE l_commitdate < l_receiptdate) AS late ON l_orderkey = o_orderkey
WHERE o_orderdate >= DATE '1993-07-01' AND o_orderdate < DATE '1993-10-01'
GROUP BY o_orderpriority
ORDER BY o_orderpriority
